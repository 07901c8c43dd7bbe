// One sketch: what it is, what was released, what a release would give, how to feed it.

import { getJson, sendJson } from "/static/api.js";
import { attempt, card, facts, make, moment, say } from "/static/dom.js";
import { confirmed } from "/static/dialog.js";
import { gauges } from "/static/gauge.js";
import { histogramPanel } from "/static/histogram.js";
import { releasePanel } from "/static/release.js";
import { tags } from "/static/sketches.js";

export async function sketchView(name) {
  const path = `/v1/sketches/${encodeURIComponent(name)}`;
  const [sketch, histogram] = await Promise.all([getJson(path), histogramPanel(path)]);
  const overview = make("div", null, ...about(sketch));
  const released = async (snapshot) => {
    overview.replaceChildren(...about(await getJson(path)));
    await histogram.add(snapshot);
  };
  const release = releasePanel(sketch, path, released);
  const intake = make("div", null, ...intakeOf(sketch, path));
  const parts = histogram.isEmpty ? [intake, release, histogram.element] : [histogram.element, release, intake];
  return [make("h1", { tabindex: -1 }, sketch.name), overview, ...parts];
}

function about(sketch) {
  const ledgers = sketch.ledgers.map((ledger, at) => [at ? ", " : null, make("a", { href: `#/ledgers/${ledger}` }, ledger)]);
  return [
    sketch.description ? make("p", { class: "lead" }, sketch.description) : null,
    tags(sketch),
    card(
      "Budget",
      gauges(sketch.ledger),
      facts([
        [sketch.ledgers.length > 1 ? "Ledgers, each of which pays" : "Ledger", make("span", null, ...ledgers.flat())],
        ["Accountant", sketch.ledger.accountant],
        ["More releases like the last", sketch.ledger.releases_like_the_last],
        ["Made", moment(sketch.created_at)],
      ]),
    ),
  ].filter(Boolean);
}

/** How to send events and how to stop taking them; or why there are none to send. */
function intakeOf(sketch, path) {
  if (sketch.closed_at !== null) {
    return [card("Events", make("p", null, "Closed ", moment(sketch.closed_at), ". It takes no more events; releases go on."))];
  }
  const refusal = make("div");
  const button = make("button", { type: "button", class: "danger", click: () => attempt(button, refusal, close) }, "Close the sketch");
  async function close() {
    const sure = await confirmed({
      title: `Close ${sketch.name}?`,
      lines: ["It will take no more events, for good. Releases go on, and nothing is erased but the fingerprints of people it counted."],
      action: "Close it for good",
    });
    if (!sure) return;
    const { body } = await sendJson("POST", `${path}/close`);
    const parts = intakeOf(body, path);
    button.closest(".card").parentElement.replaceChildren(...parts);
    parts[0].querySelector("h2").focus();
    say(`${sketch.name} is closed.`);
  }
  const command = make("pre", { tabindex: 0, role: "region", "aria-label": "Command" }, make("code", null, curlLine(sketch, path)));
  const hint = "Put a key with the scope ingest into $KEY. The batch is counted whole or refused whole; a retry with the same Idempotency-Key counts once.";
  const feed = sketch.family === "summed"
    ? [make("p", null, "A summed sketch takes no events, only merges.")]
    : [make("p", null, "Send the first events from a shell:"), command, make("p", { class: "quiet" }, hint)];
  return [card("Events", ...feed, make("div", { class: "actions" }, button), refusal)];
}

function curlLine(sketch, path) {
  return [
    `curl "${location.origin}${path}/events" \\`,
    `  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\`,
    `  -H 'Idempotency-Key: batch-1' \\`,
    `  -d '${JSON.stringify(exampleBatch(sketch))}'`,
  ].join("\n");
}

function exampleBatch({ unit, enforcement }) {
  const named = enforcement === "enforced";
  if (unit === "user") return { users: named ? [{ user: "u1", keys: ["/home", "/pricing"] }] : [["/home", "/pricing"]] };
  return { events: named ? [{ user: "u1", key: "/home" }] : ["/home", { key: "/pricing", count: 3 }] };
}
