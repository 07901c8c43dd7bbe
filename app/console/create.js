// A new sketch.

import { sendJson } from "/static/api.js";
import { attempt, card, field, make, say, select } from "/static/dom.js";

export function newSketchView() {
  const refusal = make("div");
  const form = make(
    "form",
    { submit: (event) => { event.preventDefault(); attempt(form, refusal, () => create(form)); } },
    make(
      "div",
      { class: "fields" },
      field("Name", make("input", { name: "name", required: true, "data-focus": true, autocomplete: "off", maxlength: 100, pattern: "[a-z0-9][a-z0-9._\\-]*", title: "Lower-case letters, digits, dots, dashes and underscores" }), "Lower-case letters, digits, . _ -"),
      field("Description", make("input", { name: "description", maxlength: 1000, autocomplete: "off" }), "For people"),
      field("Counters, k", make("input", { name: "k", type: "number", min: 1, max: 65536, value: 1024, required: true }), "A count of n events is at most n/(k+1) too low"),
      field("Unit", select("unit", [["event", "Events"], ["user", "One set of keys a person"]]), "What is counted and protected"),
      field("Most of one person", make("input", { name: "max_contributions", type: "number", min: 1, value: 1, required: true }), "Events, or keys in a set, that the guarantee covers"),
      field("Enforcement", select("enforcement", [["", "Usual for the unit"], ["enforced", "Enforced: items name a user"], ["declared", "Declared: senders are trusted"]]), "Who sees to it that nobody sends more"),
    ),
    payer(),
    make("div", { class: "actions" }, make("button", null, "Make the sketch"), make("a", { href: "#/" }, "Cancel")),
    refusal,
  );
  return [make("h1", { tabindex: -1 }, "New sketch"), card("What it keeps, and what it may spend", form)];
}

/** A budget of its own, or a ledger that others share. */
function payer() {
  const kind = select("payer", [["own", "A budget of its own"], ["shared", "A ledger that several sketches share"]]);
  const own = make(
    "div",
    { class: "fields" },
    field("ε in all", make("input", { name: "epsilon", inputmode: "decimal", value: "1", required: true, autocomplete: "off" })),
    field("δ in all", make("input", { name: "delta", inputmode: "decimal", value: "1e-5", required: true, autocomplete: "off" })),
    field("Accountant", select("accountant", [["basic", "basic: adds up ε and δ"], ["zcdp", "zcdp: fits more small releases"]])),
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

async function create(form) {
  const { name, payer, ledger, epsilon, delta, accountant, enforcement, ...rest } = Object.fromEntries(new FormData(form));
  const body = {
    ...rest,
    k: Number(rest.k),
    max_contributions: Number(rest.max_contributions),
    ...(enforcement ? { enforcement } : {}),
    ...(payer === "shared" ? { ledger } : { budget: { epsilon, delta, accountant } }),
  };
  const { status } = await sendJson("PUT", `/v1/sketches/${encodeURIComponent(name)}`, body);
  addEventListener("hashchange", () => say(status === 201 ? `${name} is made. Send it events.` : `${name} existed already, just like this.`), { once: true });
  location.hash = `#/sketches/${name}`;
}
