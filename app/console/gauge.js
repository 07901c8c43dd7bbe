// Gauges that show how much of a budget is spent.

import { make } from "/static/dom.js";

const NEARLY_SPENT = 0.9;

/** A gauge for ε, and one for δ unless its total is zero. */
export function gauges({ spent, total }) {
  return make(
    "div",
    { class: "gauges" },
    gauge("ε", spent.epsilon, total.epsilon),
    Number(total.delta) ? gauge("δ", spent.delta, total.delta) : null,
  );
}

function gauge(symbol, spent, total) {
  const share = Math.min(1, Number(spent) / Number(total));
  const fill = make("span", { class: share >= NEARLY_SPENT ? "fill nearly" : "fill" });
  fill.style.inlineSize = `${share * 100}%`; // set by script: the content security policy forbids style attributes
  const words = `${spent} of ${total} spent`;
  return make(
    "div",
    { class: "gauge" },
    make("span", { class: "symbol", "aria-hidden": "true" }, symbol),
    make("span", { class: "words", "aria-hidden": "true" }, make("b", null, spent), ` of ${total} spent`),
    make(
      "div",
      {
        class: "track",
        role: "meter",
        "aria-label": `${symbol} of the budget`,
        "aria-valuemin": 0,
        "aria-valuemax": 1,
        "aria-valuenow": share.toFixed(4),
        "aria-valuetext": words,
      },
      fill,
    ),
  );
}
