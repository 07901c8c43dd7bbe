// What a release would give, before it is pressed; then the release.

import { newIdempotencyKey, sendJson } from "/static/api.js";
import { amount, attempt, card, count, field, make, problemBox, say, table } from "/static/dom.js";
import { confirmed } from "/static/dialog.js";

const COLUMNS = [
  ["Mechanism"],
  ["Threshold", true],
  ["Error, too low by", true],
  ["Error, too high by", true],
  ["Smallest count likely to appear", true],
  ["Charge"],
  ["Such releases left", true],
];

export function releasePanel(sketch, path, released) {
  const offers = make("div");
  const refusal = make("div");
  const epsilon = make("input", { name: "epsilon", inputmode: "decimal", value: "0.1", required: true, autocomplete: "off" });
  const form = make(
    "form",
    { submit: submitted, input: () => { offers.replaceChildren(); refusal.replaceChildren(); } }, // a plan is for what was typed
    make(
      "div",
      { class: "fields" },
      field("ε", epsilon, "Less is more private and noisier"),
      field("δ", make("input", { name: "delta", inputmode: "decimal", value: "1e-6", required: true, autocomplete: "off" }), "0 needs a declared universe"),
      field("β", make("input", { name: "beta", inputmode: "decimal", value: "0.05", required: true, autocomplete: "off" }), "Bounds hold with probability 1\u00a0−\u00a0β"),
      field("Expected events", make("input", { name: "expected_events", type: "number", min: 0, autocomplete: "off" }), "Optional; for the sketch's own error"),
    ),
    make("div", { class: "actions" }, make("button", { class: "plain" }, "Show what it would give")),
  );

  function submitted(event) {
    event.preventDefault();
    attempt(form, refusal, async () => {
      offers.replaceChildren();
      const terms = termsOf(form);
      const { body } = await sendJson("POST", `${path}/plan`, terms);
      offers.replaceChildren(...offersOf(sketch, body, (offer, button) => press(terms, offer, button)));
      say(`${body.mechanisms.length === 1 ? "One mechanism fits" : `${body.mechanisms.length} mechanisms fit`}. Recommended: ${body.recommended}. Nothing was spent.`);
    });
  }

  /** One idempotency key for each offer: pressing again after a lost answer gives the same snapshot, charged once. */
  function press(terms, offer, button) {
    attempt(button, refusal, async () => {
      if (!(await confirmed(question(sketch, offer)))) return;
      offer.requestKey ??= newIdempotencyKey();
      const { body } = await sendJson("POST", `${path}/snapshots`, { ...terms, mechanism: offer.mechanism }, offer.requestKey);
      offers.replaceChildren();
      await released(body);
      say(`Released. Charged: ${amount(offer.charge)}.`);
    }, shownRefusal);
  }

  /** A refused charge says what would fit, and puts it into the form if asked. */
  function shownRefusal(problem) {
    const fits = problem.facts.largest_epsilon;
    if (problem.slug !== "budget-exhausted" || !fits) return problemBox(problem);
    const left = problem.facts.remaining.map((rest) => `${rest.ledger} has ${amount(rest)} left`).join("; ");
    const instead = fits === "0" ? null : make("button", { type: "button", class: "plain", click: () => { epsilon.value = fits; form.requestSubmit(); epsilon.focus(); } }, `Plan ε ${fits} instead`);
    return problemBox(problem, make("p", null, `${left}.`), instead);
  }

  return card("Plan and release", make("p", { class: "quiet" }, "A plan reads no data and spends nothing."), form, offers, refusal);
}

function termsOf(form) {
  const { expected_events: expected, ...terms } = Object.fromEntries(new FormData(form));
  return expected === "" ? terms : { ...terms, expected_events: Number(expected) };
}

/** The offers as a table whose radio buttons choose the mechanism, and the button that says what it will charge. */
function offersOf(sketch, plan, press) {
  let chosen = plan.mechanisms[0];
  const button = make("button", { type: "button", click: () => press(chosen, button) });
  const choose = (offer) => {
    chosen = offer;
    button.textContent = `Release with ${offer.mechanism}: charge ${amount(offer.charge)}`;
  };
  const rows = plan.mechanisms.map((offer) => [
    make(
      "label",
      { class: "choice" },
      make("input", { type: "radio", name: "mechanism", value: offer.mechanism, checked: offer === chosen, change: () => choose(offer) }),
      offer.mechanism,
    ),
    count(offer.parameters.threshold),
    offer.error_bound.sketch_low === null ? `${count(offer.error_bound.noise_low)} + sketch` : count(offer.error_bound.noise_low + offer.error_bound.sketch_low),
    count(offer.error_bound.noise_high),
    count(offer.smallest_likely_count),
    amount(offer.charge),
    count(offer.releases_remaining),
  ]);
  choose(chosen);
  const warning = chosen.releases_remaining === 0 ? make("p", { class: "warning" }, "The budget does not cover this release as it stands.") : null;
  return [table("What each mechanism would give", COLUMNS, rows), warning, make("div", { class: "actions" }, button)].filter(Boolean);
}

function question(sketch, offer) {
  const payers = sketch.ledgers.length === 1 ? `the ledger ${sketch.ledgers[0]}` : `each of the ledgers ${sketch.ledgers.join(", ")}`;
  return {
    title: `Release ${sketch.name}?`,
    lines: [`This charges ${amount(offer.charge)} to ${payers}, for good.`, "The snapshot is stored and free to read from then on."],
    action: `Charge ${amount(offer.charge)}`,
  };
}
