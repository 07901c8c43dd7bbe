// The form that makes a new sketch.

import { sendJson } from "/static/api.js";
import { attempt, card, decimalInput, field, make, say, select } from "/static/dom.js";

const UNITS = [["event", "Events"], ["user", "One set of keys a person"]];
const ENFORCEMENTS = [
  ["", "Usual for the unit"],
  ["enforced", "Enforced: items name a user"],
  ["declared", "Declared: senders are trusted"],
];
const PAYERS = [["own", "A budget of its own"], ["shared", "A ledger that several sketches share"]];
const ACCOUNTANTS = [["basic", "basic: adds up ε and δ"], ["zcdp", "zcdp: fits more small releases"]];

/** The elements of the view. */
export function newSketchView() {
  const refusal = make("div");
  const submitted = (event) => {
    event.preventDefault();
    attempt(form, refusal, () => create(form));
  };
  const name = make("input", {
    name: "name", required: true, maxlength: 100, pattern: "[a-z0-9][a-z0-9._\\-]*", autocomplete: "off",
    "data-focus": true,
  });
  const description = make("input", { name: "description", maxlength: 1000, autocomplete: "off" });
  const counters = make("input", { name: "k", type: "number", min: 1, max: 65536, value: 1024, required: true });
  const most = make("input", { name: "max_contributions", type: "number", min: 1, value: 1, required: true });
  const form = make(
    "form",
    { submit: submitted },
    make(
      "div",
      { class: "fields" },
      field("Name", name, "Lower-case letters, digits, . _ -"),
      field("Description", description, "For people"),
      field("Counters, k", counters, "Of n events in all, a count is at most n/(k+1) too low"),
      field("Unit", select("unit", UNITS), "What is counted and protected"),
      field("Most of one person", most, "Events, or keys in a set, that the guarantee covers"),
      field("Enforcement", select("enforcement", ENFORCEMENTS), "Who sees to it that nobody sends more"),
    ),
    payer(),
    make("div", { class: "actions" }, make("button", null, "Make the sketch"), make("a", { href: "#/" }, "Cancel")),
    refusal,
  );
  return [make("h1", { tabindex: -1 }, "New sketch"), card("What it keeps, and what it may spend", form)];
}

/** The fields for who pays: a budget of the sketch's own, or a ledger that several sketches share. */
function payer() {
  const kind = select("payer", PAYERS);
  const own = make(
    "div",
    { class: "fields" },
    field("ε in all", decimalInput("epsilon", "1")),
    field("δ in all", decimalInput("delta", "1e-5")),
    field("Accountant", select("accountant", ACCOUNTANTS)),
  );
  const ledger = make("input", { name: "ledger", autocomplete: "off", maxlength: 100, disabled: true, required: true });
  const shared = make("div", { class: "fields", hidden: true }, field("Name of the ledger", ledger));
  kind.addEventListener("change", () => {
    const isShared = kind.value === "shared";
    shared.hidden = ledger.disabled = !isShared;
    own.hidden = isShared;
    for (const control of own.querySelectorAll("input, select")) control.disabled = isShared;
  });
  return make("fieldset", null, make("legend", null, "Who pays for releases"), field("Paid from", kind), own, shared);
}

/** Make the sketch that the form describes, and go to its view. */
async function create(form) {
  const { name, payer, ledger, epsilon, delta, accountant, ...typed } = Object.fromEntries(new FormData(form));
  const body = {
    description: typed.description,
    k: Number(typed.k),
    unit: typed.unit,
    max_contributions: Number(typed.max_contributions),
    ...(typed.enforcement ? { enforcement: typed.enforcement } : {}),
    ...(payer === "shared" ? { ledger } : { budget: { epsilon, delta, accountant } }),
  };
  const { status } = await sendJson("PUT", `/v1/sketches/${encodeURIComponent(name)}`, body);
  const words = status === 201 ? `${name} is made. Send it events.` : `${name} existed already, just like this.`;
  // This listener runs after the one of the console, which clears what was said.
  addEventListener("hashchange", () => say(words), { once: true });
  location.hash = `#/sketches/${name}`;
}
