// The panel of what was released: a picture from the API, the same numbers as a table, and what they mean.

import { getJson, getPicture } from "/static/api.js";
import {
  amount, attempt, card, count, facts, field, keyText, make, moment, momentText, say, select, table,
} from "/static/dom.js";

const PAGE = 50;
const MOST_BARS = 100; // as many as app/api/picture.py draws

/** Gives `element`, the panel; `isEmpty`, whether nothing was released yet; and `add`, which shows a new snapshot. */
export async function histogramPanel(path) {
  const page = await getJson(`${path}/snapshots?limit=${PAGE}`);
  const none = make("p", null, "Nothing has been released yet. Reading is free; a release is paid once.");
  const shown = make("div");
  const refusal = make("div");
  const snapshot = select("snapshot", page.items.map(option));
  const top = make("input", { type: "number", name: "top", min: 1, max: 1000, value: 25 });
  const least = make("input", { type: "number", name: "min_count", placeholder: "any" });
  const press = () => attempt(older, refusal, loadOlder);
  const older = make("button", { type: "button", class: "plain", click: press }, "Load older releases");
  older.hidden = !page.cursor;
  const controls = make(
    "form",
    { class: "controls", change: () => load(), submit: (event) => event.preventDefault() },
    field("Release", snapshot),
    field("Largest", top),
    field("Count at least", least),
    older,
  );
  let cursor = page.cursor;
  let turn = 0;

  /** Add the next page of older releases to those that can be chosen. */
  async function loadOlder() {
    const next = await getJson(`${path}/snapshots?limit=${PAGE}&cursor=${encodeURIComponent(cursor)}`);
    snapshot.append(...select("", next.items.map(option)).children);
    cursor = next.cursor;
    older.hidden = !cursor;
    snapshot.focus();
    say(`${next.items.length} older releases can be chosen.`);
  }

  /** Show picture and table of what the controls ask for; only the last request is shown. */
  async function load() {
    if (!controls.reportValidity()) return;
    const mine = ++turn;
    const query = new URLSearchParams({ top: top.value || 25, ...(least.value ? { min_count: least.value } : {}) });
    const address = `/v1/snapshots/${snapshot.value}?${query}`;
    // The trigger is a form that nobody sees: `controls` as the trigger would ignore a change while another loads.
    await attempt(make("form"), refusal, async () => {
      const [release, picture] = await Promise.all([getJson(address), getPicture(address)]);
      const image = await imageOf(picture, release);
      if (mine === turn) shown.replaceChildren(...partsOf(release, image));
    });
  }

  /** Put a new snapshot in front of the others, and show it. */
  async function add(release) {
    const [entry] = select("", [option(release)]).children;
    snapshot.prepend(entry);
    entry.selected = true;
    none.remove();
    controls.hidden = false;
    await load();
    element.querySelector("h2").focus();
  }

  const isEmpty = page.items.length === 0;
  const element = card("Histogram", isEmpty ? none : null, controls, refusal, shown);
  controls.hidden = isEmpty;
  if (!isEmpty) await load();
  return { element, isEmpty, add };
}

function option({ id, created_at, mechanism, epsilon, rho }) {
  return [id, `${momentText(created_at)}, ${mechanism}, ${epsilon ? `ε ${epsilon}` : `ρ ${rho}`}`];
}

/**
 * The picture as an <img>, which runs no script and shares no style with the page. Its fixed width is replaced by 100%,
 * so that where there is less room the bars get shorter, and the letters keep their size.
 */
async function imageOf(picture, release) {
  const fluid = picture.replace(/ width="\d+"/, ' width="100%"');
  const url = URL.createObjectURL(new Blob([fluid], { type: "image/svg+xml" }));
  const bars = Math.min(release.histogram.length, MOST_BARS);
  const words = `Noisy counts as bars (${bars}), with error bars and the threshold. The table has the same numbers.`;
  const image = make("img", { alt: words, class: "picture", src: url });
  await image.decode();
  image.height = image.naturalHeight;
  URL.revokeObjectURL(url);
  return image;
}

/** The picture beside the table, and below them what they mean, the guarantee and the terms of the release. */
function partsOf(release, image) {
  const { total, other } = release;
  const columns = [["Key"], ["Count", true], ["Low", true], ["High", true], ...(total ? [["Share, %", true]] : [])];
  const figures = (bar) => [count(bar.count), count(bar.low), count(bar.high), ...(total ? [String(bar.share)] : [])];
  const rows = release.histogram.map((bar) => [keyText(bar.key), ...figures(bar)]);
  if (other) rows.push([make("i", null, "all other keys"), ...figures(other)]);
  const counted = total?.unit === "user" ? "people" : "events";
  const inAll = total ? [["In all", `${count(total.count)} ${counted} (${count(total.low)} to ${count(total.high)})`]] : [];
  return [
    make(
      "div",
      { class: "beside" },
      image,
      table("Counts", columns, rows),
    ),
    make("p", { class: "quiet" }, meaning(release)),
    make("blockquote", null, release.guarantee),
    facts([
      ...inAll,
      ["Released", moment(release.created_at)],
      ["Mechanism", `${release.mechanism} (${release.theorem})`],
      ["Charged", release.charged.map((charge) => `${amount(charge)} to ${charge.ledger}`).join("; ")],
      ["β", release.beta],
      ...Object.entries(release.parameters).map(([name, value]) => [parameterName(name), String(value)]),
    ]),
  ];
}

/** max_contributions → Max contributions; k stays k. */
function parameterName(name) {
  return name.length === 1 ? name : name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");
}

/** How sure the intervals are, and what is known of keys that were not reported. */
function meaning({ beta, error_bound: bound, truncated }) {
  const probability = Number((1 - Number(beta)).toPrecision(12));
  const missing = bound.unlisted === null
    ? `The upper ends are unknown. ${bound.reason}`
    : `The true count of a key not reported is at most ${count(bound.unlisted)}.`;
  const cut = truncated ? " The smallest counts were left out: the keys have more bytes than the server lists." : "";
  return `With probability ${probability}, all at once: true counts lie between low and high. ${missing}${cut}`;
}
