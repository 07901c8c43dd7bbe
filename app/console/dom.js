// Builds elements from text. Strangers' keys pass here, so nothing is ever parsed as HTML.

import { Problem } from "/static/api.js";

const SVG = "http://www.w3.org/2000/svg";
const COUNT = new Intl.NumberFormat("en");
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
let lastId = 0;

/** An element; a function among the attributes listens to the event of that name. */
export function make(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

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

export const newId = () => `id-${++lastId}`;
export const count = (number) => (number === null || number === undefined ? "unknown" : COUNT.format(number));
export const amount = ({ epsilon, delta }) => `ε\u00a0${epsilon}` + (Number(delta) ? ` and δ\u00a0${delta}` : "");
export const moment = (text) => make("time", { datetime: text }, MOMENT.format(new Date(text)));
export const momentText = (text) => MOMENT.format(new Date(text));
/** A key of a histogram: isolated, so that right-to-left text does not turn its surroundings around. */
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

/** Text, not type=number: that would not take 1e-6 as it is written. */
export function decimalInput(name, value) {
  return make("input", { name, inputmode: "decimal", value, required: true, autocomplete: "off" });
}

export function select(name, options) {
  return make("select", { name }, ...options.map(([value, words]) => make("option", { value }, words)));
}

/** Terms and what they are; those without a value are left out. */
export function facts(pairs) {
  const given = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  const pair = ([term, value]) => make("div", null, make("dt", null, term), make("dd", null, value));
  return make("dl", { class: "facts" }, ...given.map(pair));
}

/** A table in a scroller of its own, so that the page never scrolls sideways. Columns: [title, is it a number]. */
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

/** Said aloud by screen readers, and shown until something else is said. */
export function say(words) {
  document.getElementById("status").textContent = words;
}

export function problemBox(problem, ...more) {
  return make(
    "div",
    { class: "problem", role: "alert" },
    make("strong", null, problem.title),
    make("p", null, problem.message),
    ...more,
  );
}

/** Run what `trigger` (a button, a form) asks for, once at a time, and show in `place` why it was refused. */
export async function attempt(trigger, place, action, shown = problemBox) {
  if (trigger.getAttribute("aria-busy") === "true") return; // not disabled: that would lose the focus
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
