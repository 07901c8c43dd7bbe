// Builds elements from text, never by parsing HTML: the keys of histograms are whatever strangers sent.

import { Problem } from "/static/api.js";

const SVG = "http://www.w3.org/2000/svg";
const COUNT = new Intl.NumberFormat("en");
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
let lastId = 0;

/** An HTML element. A function among the attributes becomes a listener for the event of that name. */
export function make(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for an SVG element. */
export function makeSvg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An id that no other element of the page has. */
export const newId = () => `id-${++lastId}`;
/** A number with its thousands separated, or "unknown". */
export const count = (number) => (number === null || number === undefined ? "unknown" : COUNT.format(number));
/** An (ε, δ), without a δ of zero. */
export const amount = ({ epsilon, rho, delta }) =>
  (epsilon ? `ε\u00a0${epsilon}` : `ρ\u00a0${rho}`) + (Number(delta) ? ` and δ\u00a0${delta}` : "");
/** A time, in the time zone of whoever reads: as an element, and as text. */
export const moment = (text) => make("time", { datetime: text }, MOMENT.format(new Date(text)));
export const momentText = (text) => MOMENT.format(new Date(text));
/** An event key, isolated so that right-to-left text does not reorder what stands around it. */
export const keyText = (key) => make("bdi", { class: "key" }, key);

/** A titled part of a page. */
export function card(title, ...children) {
  const id = newId();
  const heading = make("h2", { id, tabindex: -1 }, title);
  return make("section", { class: "card", "aria-labelledby": id }, heading, ...children);
}

/** A label, its control, and a hint that belongs to it. */
export function field(label, control, hint) {
  control.id ||= newId();
  const hintId = hint ? newId() : null;
  if (hintId) control.setAttribute("aria-describedby", hintId);
  return make(
    "div",
    { class: "field" },
    make("label", { for: control.id }, label),
    control,
    hint ? make("small", { id: hintId }, hint) : null,
  );
}

/** An input for ε, δ or β. Its type is text, because type=number would not keep 1e-6 as it is written. */
export function decimalInput(name, value) {
  return make("input", { name, inputmode: "decimal", value, required: true, autocomplete: "off" });
}

/** A list to choose from. Options: [value, words]. */
export function select(name, options) {
  return make("select", { name }, ...options.map(([value, words]) => make("option", { value }, words)));
}

/** A list of names and values. Pairs without a value are left out. */
export function facts(pairs) {
  const given = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  const pair = ([term, value]) => make("div", null, make("dt", null, term), make("dd", null, value));
  return make("dl", { class: "facts" }, ...given.map(pair));
}

/** A table that scrolls by itself, so that the page never scrolls sideways. Columns: [title, whether numbers]. */
export function table(caption, columns, rows) {
  const kind = ([, isNumber]) => (isNumber ? "number" : null);
  const head = columns.map((column) => make("th", { scope: "col", class: kind(column) }, column[0]));
  const body = rows.map((cells) =>
    make("tr", null, ...cells.map((cell, at) => make("td", { class: kind(columns[at]) }, cell))),
  );
  const parts = [
    make("caption", null, caption),
    make("thead", null, make("tr", null, ...head)),
    make("tbody", null, ...body),
  ];
  const scroller = { class: "scroller", role: "region", "aria-label": caption, tabindex: 0 };
  return make("div", scroller, make("table", null, ...parts));
}

/** Show words until others are said; screen readers say them aloud. */
export function say(words) {
  document.getElementById("status").textContent = words;
}

/** Why something was refused, and perhaps what to do about it. */
export function problemBox(problem, ...more) {
  return make(
    "div",
    { class: "problem", role: "alert" },
    make("strong", null, problem.title),
    make("p", null, problem.message),
    ...more,
  );
}

/** Run the action of `trigger` (a button or form) unless it is still running; if it is refused, show why in `place`. */
export async function attempt(trigger, place, action, shown = problemBox) {
  // The trigger is marked as busy and not disabled, which would lose the focus.
  if (trigger.getAttribute("aria-busy") === "true") return;
  trigger.setAttribute("aria-busy", "true");
  place.replaceChildren();
  try {
    await action();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    place.replaceChildren(shown(problem));
  } finally {
    trigger.removeAttribute("aria-busy");
  }
}
