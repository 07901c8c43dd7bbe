// The panel that plans a release and makes it: first what each mechanism would give, then the release that is paid.

import { newIdempotencyKey, sendJson } from "/static/api.js";
import { amount, attempt, card, count, decimalInput, field, make, problemBox, say, table } from "/static/dom.js";
import { askToConfirm } from "/static/dialog.js";

const COLUMNS = [
  ["Mechanism"],
  ["Threshold", true],
  ["True count, lower by", true],
  ["True count, higher by", true],
  ["Smallest count likely to appear", true],
  ["Charge"],
  ["Such releases left", true],
];

/** The panel. `released` is called with the snapshot of a release that was made here. */
export function releasePanel(sketch, path, released) {
  const offers = make("div");
  const refusal = make("div");
  const epsilon = decimalInput("epsilon", "0.1");
  const total = make("input", { name: "total", type: "checkbox" });
  const expected = make("input", { name: "expected_events", type: "number", min: 0, autocomplete: "off" });
  const form = make(
    "form",
    { submit: submitted, input: forget },
    make(
      "div",
      { class: "fields" },
      field("ε", epsilon, "Less is more private and noisier"),
      field("δ", decimalInput("delta", "1e-6"), "0 needs a declared universe"),
      field("β", decimalInput("beta", "0.05"), "Bounds hold with probability 1\u00a0−\u00a0β"),
      field("Expected events", expected, "Optional, for the plan: what if it held so many?"),
      field("Total", total, "Also how many there are, for 2\u00a0% of the price"),
    ),
    make("div", { class: "actions" }, make("button", { class: "plain" }, "Show what it would give")),
  );

  /** Remove the plan as soon as the form changes, since it is a plan for what was typed before. */
  function forget() {
    offers.replaceChildren();
    refusal.replaceChildren();
  }

  /** Ask for a plan and show its offers. */
  function submitted(event) {
    event.preventDefault();
    attempt(form, refusal, async () => {
      offers.replaceChildren();
      const terms = termsOf(form);
      const { body } = await sendJson("POST", `${path}/plan`, terms);
      offers.replaceChildren(...offersOf(body, (offer, button) => press(terms, offer, button)));
      say(`Mechanisms that fit: ${body.mechanisms.length}. Recommended: ${body.recommended}. Nothing was spent.`);
    });
  }

  /** Make a release. Each offer has one idempotency key, so pressing again after a lost answer charges nothing more. */
  function press(terms, offer, button) {
    attempt(button, refusal, async () => {
      if (!(await askToConfirm(question(sketch, offer)))) return;
      offer.idempotencyKey ??= newIdempotencyKey();
      const { expected_events: _whatIf, ...paid } = terms;
      const request = { ...paid, mechanism: offer.mechanism };
      const { body } = await sendJson("POST", `${path}/snapshots`, request, offer.idempotencyKey);
      offers.replaceChildren();
      await released(body);
      say(`Released. Charged: ${amount(offer.charge)}.`);
    }, shownRefusal);
  }

  /** Why a release was refused. If the budget was too small: what is left, and a button that plans what would fit. */
  function shownRefusal(problem) {
    const fits = problem.facts.largest_epsilon;
    if (problem.slug !== "budget-exhausted" || !fits) return problemBox(problem);
    const left = problem.facts.remaining.map((rest) => `${rest.ledger} has ${amount(rest)} left`).join("; ");
    const planInstead = () => {
      epsilon.value = fits;
      epsilon.focus();
      form.requestSubmit();
    };
    const words = `Plan ε\u00a0${fits} instead`;
    const button = make("button", { type: "button", class: "plain", click: planInstead }, words);
    return problemBox(problem, make("p", null, `${left}.`), fits === "0" ? null : button);
  }

  const hint = make("p", { class: "quiet" }, "A plan reads no data and spends nothing.");
  return card("Plan and release", hint, form, offers, refusal);
}

/** What the form asks for, as the service takes it. */
function termsOf(form) {
  const { expected_events: expected, total, ...terms } = Object.fromEntries(new FormData(form));
  const asked = total === undefined ? terms : { ...terms, total: true };
  return expected === "" ? asked : { ...asked, expected_events: Number(expected) };
}

/** The offers as a table whose radio buttons choose the mechanism, and the button that says what it will charge. */
function offersOf(plan, press) {
  let chosen = plan.mechanisms[0];
  const button = make("button", { type: "button", click: () => press(chosen, button) });
  const warning = make("p", { class: "warning" }, "The budget does not cover this release as it stands.");
  const choose = (offer) => {
    chosen = offer;
    warning.hidden = offer.releases_remaining !== 0;
    button.textContent = `Release with ${offer.mechanism}: charge ${amount(offer.charge)}`;
  };
  const rows = plan.mechanisms.map((offer) => [
    make("label", { class: "choice" }, radio(offer, offer === chosen, choose), offer.mechanism),
    count(offer.parameters.threshold),
    count(offer.error_bound.below),
    higherBy(offer.error_bound),
    count(offer.smallest_likely_count),
    amount(offer.charge),
    count(offer.releases_remaining),
  ]);
  choose(chosen);
  const offers = table("What each mechanism would give", COLUMNS, rows);
  return [offers, inRho(plan.in_rho), warning, make("div", { class: "actions" }, button)];
}

/** What the same price would give if it were asked for in ρ, which the command line and the API can. */
function inRho(offer) {
  if (!offer) return make("p", { hidden: true });
  const { mechanism, parameters, charge } = offer;
  const words = `Asked for as ρ\u00a0${charge.rho}, the same price would be released with ${mechanism}`;
  return make("p", { class: "quiet" }, `${words}, cut at ${count(parameters.threshold)} (discreet snapshot --rho).`);
}

function radio(offer, checked, choose) {
  const change = () => choose(offer);
  return make("input", { type: "radio", name: "mechanism", value: offer.mechanism, checked, change });
}

/** By how much a true count may be higher. The sketch's own part is measured by a release; a plan can only suppose. */
function higherBy({ above, sketch }) {
  return sketch === null ? `${count(above)} + sketch` : count(above + sketch);
}

/** What is asked before a release is paid. */
function question(sketch, offer) {
  const payers = sketch.ledger_count === 1 ? "the ledger" : "each of the ledgers";
  const more = sketch.ledger_count - sketch.ledgers.length;
  const names = sketch.ledgers.join(", ") + (more ? ` and ${count(more)} more` : "");
  return {
    title: `Release ${sketch.name}?`,
    lines: [
      `This charges ${amount(offer.charge)} to ${payers} ${names}, for good.`,
      "The snapshot is stored and free to read from then on.",
    ],
    action: `Charge ${amount(offer.charge)}`,
  };
}
