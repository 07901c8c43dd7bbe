// The view of all sketches, with their public parameters and budgets.

import { getJson } from "/static/api.js";
import { attempt, make } from "/static/dom.js";
import { gauges } from "/static/gauge.js";

const PAGE = 20;

/** The elements of the view. */
export async function sketchesView() {
  const page = await getJson(`/v1/sketches?limit=${PAGE}`);
  return [
    make(
      "div",
      { class: "heading" },
      make("h1", { tabindex: -1 }, "Sketches"),
      make("a", { class: "button", href: "#/new" }, "New sketch"),
    ),
    page.items.length ? listOf(page) : make("p", { class: "lead" }, "There is no sketch yet that this key may see."),
  ];
}

/** The list, beginning with the first page, and a button that loads more. */
function listOf(first) {
  const list = make("ul", { class: "sketches" }, ...first.items.map(item));
  const refusal = make("div");
  let cursor = first.cursor;
  const press = () => attempt(more, refusal, load);
  const more = make("button", { type: "button", class: "plain", hidden: !cursor, click: press }, "Show more sketches");
  async function load() {
    const page = await getJson(`/v1/sketches?limit=${PAGE}&cursor=${encodeURIComponent(cursor)}`);
    const items = page.items.map(item);
    list.append(...items);
    cursor = page.cursor;
    more.hidden = !cursor;
    items[0]?.querySelector("a").focus();
  }
  return make("div", null, list, refusal, more);
}

function item(sketch) {
  return make(
    "li",
    { class: "card sketch" },
    make(
      "div",
      null,
      make("h2", null, make("a", { href: `#/sketches/${sketch.name}` }, sketch.name)),
      sketch.description ? make("p", null, sketch.description) : null,
      tags(sketch),
    ),
    make("div", null, gauges(sketch.ledger)),
  );
}

/** The public parameters of a sketch, in a few words each. */
export function tags(sketch) {
  const unit = sketch.unit === "user" ? "one set of keys a person" : "events";
  const words = [
    `k = ${sketch.k}`,
    `unit: ${unit}`,
    `max ${sketch.max_contributions} a person, ${sketch.enforcement}`,
    `family: ${sketch.family}`,
    sketch.universe_size === null ? null : `${sketch.universe_size} possible keys`,
    sketch.closed_at === null ? null : "closed",
  ];
  const items = words.filter(Boolean).map((word) => make("li", null, word));
  return make("ul", { class: "tags", "aria-label": "Parameters" }, ...items);
}
