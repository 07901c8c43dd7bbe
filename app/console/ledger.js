// The view of a ledger: its budget, what is proven, what was spent over time, and its entries.

import { getJson } from "/static/api.js";
import { amount, card, count, facts, make, makeSvg, moment, momentText, table } from "/static/dom.js";
import { gauges } from "/static/gauge.js";

const PAGE = 1000;
const MOST_PAGES = 10; // of entries that are loaded
const MOST_ROWS = 200; // of the table of entries
const WIDTH = 1000;
const HEIGHT = 100; // units of the drawing, which is stretched to the page; lines keep their thickness
const KINDS = {
  open: "opened with", budget: "total set to", sketch: "sketch made", merge: "data merged", release: "release",
};
const SETS_TOTAL = ["open", "budget"];
const COLUMNS = [
  ["No.", true], ["When"], ["Kind"], ["ε", true], ["δ", true], ["Mechanism or reason"], ["Snapshot"],
];

/** The elements of the view. */
export async function ledgerView(name) {
  const path = `/v1/ledgers/${encodeURIComponent(name)}`;
  const [ledger, entries, report] = await Promise.all([
    getJson(path), allEntries(`${path}/entries`), getJson(`${path}/report`),
  ]);
  return [
    make("h1", { tabindex: -1 }, `Ledger ${ledger.name}`),
    card(
      "Budget",
      gauges(ledger),
      facts([
        ["Remaining", amount(ledger.remaining)],
        ["Accountant", ledger.accountant],
        ["ρ spent", ledger.rho],
        ["More releases like the last", ledger.releases_like_the_last],
        ["Opened", moment(ledger.created_at)],
      ]),
    ),
    card("What is proven", ...provenOf(report)),
    card("Over time", ...chartsOf(ledger, entries)),
    card("Entries", entriesTable(entries)),
  ];
}

/** The guarantee in words and numbers. For a zcdp ledger it differs from what is spent, which is called bookkeeping. */
function provenOf(report) {
  const changes = report.budget_changes.map((change) => [
    `Total set by entry ${change.number}, after a release`,
    change.adds ? `${amount(change)}, which adds ${amount(change.adds)} to the guarantee` : amount(change),
  ]);
  const spent = report.spent.rho ? "Spent, as bookkeeping" : "Spent";
  return [
    make("p", { class: "lead" }, report.statement),
    facts([["Guarantee", amount(report.guarantee)], [spent, amount(report.spent)], ...changes]),
  ];
}

/** The entries, the oldest first, up to MOST_PAGES pages. */
async function allEntries(path) {
  const entries = [];
  let cursor = null;
  for (let page = 0; page < MOST_PAGES && (page === 0 || cursor); page++) {
    const answer = await getJson(`${path}?limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    entries.push(...answer.items);
    cursor = answer.cursor;
  }
  return entries;
}

/** A chart for ε, one for δ unless its total is zero, and for a zcdp ledger what the steps mean. */
function chartsOf(ledger, entries) {
  const addsUp = ledger.accountant === "basic";
  const note = addsUp ? null : make(
    "p",
    { class: "quiet" },
    "The steps add up the ε and δ of the releases. zcdp counts ρ instead, which comes to the dotted line. That is " +
      "bookkeeping: it tells what is left, and is no guarantee.",
  );
  const delta = Number(ledger.total.delta) ? chart("δ", "delta", ledger, entries, addsUp) : null;
  return [chart("ε", "epsilon", ledger, entries, addsUp), delta, note].filter(Boolean);
}

/** What was spent, in steps, and the total above it. `addsUp`: the ledger's accountant adds up ε and δ. */
function chart(symbol, member, ledger, entries, addsUp) {
  const spent = [];
  const total = [];
  let sum = 0;
  for (const entry of entries) {
    const at = Date.parse(entry.created_at);
    const value = Number(entry[member]);
    if (entry.kind === "release") spent.push([at, (sum += value)]);
    else if (SETS_TOTAL.includes(entry.kind)) total.push([at, value]);
  }
  const start = total[0][0];
  const now = Math.max(Date.now(), start + 1000, ...spent.map(([at]) => at)); // the server's clock may be ahead of ours
  const most = Math.max(sum, Number(ledger.spent[member]), ...total.map(([, value]) => value));
  const place = ([at, value]) => [((at - start) / (now - start)) * WIDTH, (1 - value / most) * HEIGHT];
  const state = `${ledger.spent[member]} of ${ledger.total[member]} spent`;
  const words = `${symbol} over time: ${state}. The entries have the steps.`;
  const counted = place([start, Number(ledger.spent[member])])[1];
  return make(
    "figure",
    { class: "chart" },
    make(
      "figcaption",
      null,
      make("b", null, symbol),
      make("span", { class: "mark spent" }, addsUp ? `spent: ${ledger.spent[member]}` : "releases, added up"),
      addsUp ? null : make("span", { class: "mark counted" }, `counted: ${ledger.spent[member]}`),
      make("span", { class: "mark total" }, `total: ${ledger.total[member]}`),
    ),
    makeSvg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": words },
      makeSvg("path", { class: "area", d: `${steps([[start, 0], ...spent].map(place), WIDTH)}V${HEIGHT}H0Z` }),
      addsUp ? null : makeSvg("path", { class: "counted", d: `M0 ${counted}H${WIDTH}` }),
      makeSvg("path", { class: "total", d: steps(total.map(place), WIDTH) }),
      makeSvg("path", { class: "spent", d: steps([[start, 0], ...spent].map(place), WIDTH) }),
    ),
    make("div", { class: "axis" }, make("span", null, momentText(start)), make("span", null, "now")),
  );
}

/** The path of a line that keeps its height until the next moment and then jumps. */
function steps([[x, y], ...rest], end) {
  return `M${x} ${y}${rest.map(([nextX, nextY]) => `H${nextX}V${nextY}`).join("")}H${end}`;
}

function entriesTable(entries) {
  const newest = entries.toReversed().slice(0, MOST_ROWS);
  const rows = newest.map((entry) => [
    count(entry.number),
    moment(entry.created_at),
    KINDS[entry.kind],
    entry.epsilon,
    entry.delta,
    entry.mechanism ?? entry.reason,
    entry.snapshot ? make("code", null, entry.snapshot.slice(0, 8)) : "",
  ]);
  const caption = `Entries, the newest first (${newest.length} of ${entries.length})`;
  return table(caption, COLUMNS, rows);
}
