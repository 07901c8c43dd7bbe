// The view of one sketch: what it is, what was released, what a release would give, how to send events.

import { getJson, sendJson } from "/static/api.js";
import { attempt, card, facts, make, moment, say } from "/static/dom.js";
import { askToConfirm } from "/static/dialog.js";
import { gauges } from "/static/gauge.js";
import { histogramPanel } from "/static/histogram.js";
import { releasePanel } from "/static/release.js";
import { tags } from "/static/sketches.js";

/** The elements of the view. A sketch of which nothing was released begins with how to send events. */
export async function sketchView(name) {
  const path = `/v1/sketches/${encodeURIComponent(name)}`;
  const [sketch, histogram] = await Promise.all([getJson(path), histogramPanel(path)]);
  const overview = make("div", null, ...about(sketch));
  const released = async (snapshot) => {
    overview.replaceChildren(...about(await getJson(path)));
    await histogram.add(snapshot);
  };
  const closed = (sketch) => {
    overview.replaceChildren(...about(sketch));
    intake.replaceChildren(intakeCard(sketch, path, closed));
    intake.querySelector("h2").focus();
  };
  const release = releasePanel(sketch, path, released);
  const intake = make("div", null, intakeCard(sketch, path, closed));
  const parts = histogram.isEmpty ? [intake, release, histogram.element] : [histogram.element, release, intake];
  return [make("h1", { tabindex: -1 }, sketch.name), overview, ...parts];
}

/** Description, parameters and budget. */
function about(sketch) {
  const link = (ledger) => make("a", { href: `#/ledgers/${ledger}` }, ledger);
  const ledgers = sketch.ledgers.flatMap((ledger, at) => (at ? [", ", link(ledger)] : [link(ledger)]));
  const more = sketch.ledger_count - sketch.ledgers.length;
  if (more) ledgers.push(` and ${more} more`);
  return [
    sketch.description ? make("p", { class: "lead" }, sketch.description) : null,
    tags(sketch),
    sketch.not_covered ? make("p", { role: "note" }, sketch.not_covered) : null,
    card(
      "Budget",
      gauges(sketch.ledger),
      facts([
        [sketch.ledger_count > 1 ? "Ledgers, each of which pays" : "Ledger", make("span", null, ...ledgers)],
        ["Accountant", sketch.ledger.accountant],
        ["More releases like the last", sketch.ledger.releases_like_the_last],
        ["Made", moment(sketch.created_at)],
      ]),
    ),
  ].filter(Boolean);
}

/** How to send events and how to close the sketch; for a closed one, that it takes no more. */
function intakeCard(sketch, path, closed) {
  if (sketch.closed_at !== null) {
    const words = ["Closed ", moment(sketch.closed_at), ". It takes no more events; releases go on."];
    return card("Events", make("p", null, ...words));
  }
  const refusal = make("div");
  const press = () => attempt(button, refusal, close);
  const button = make("button", { type: "button", class: "danger", click: press }, "Close the sketch");
  async function close() {
    const sure = await askToConfirm({
      title: `Close ${sketch.name}?`,
      lines: [
        "It will take no more events, for good. Releases go on.",
        "If it counted people, their fingerprints are erased; the guarantee stands.",
      ],
      action: "Close it for good",
    });
    if (!sure) return;
    const { body } = await sendJson("POST", `${path}/close`);
    closed(body);
    say(`${sketch.name} is closed.`);
  }
  const line = make("code", null, curlLine(sketch, path));
  const command = make("pre", { tabindex: 0, role: "region", "aria-label": "Command" }, line);
  const hint =
    "Put a key with the scope ingest into $KEY. The batch is counted whole or refused whole; a retry with the same " +
    "Idempotency-Key counts once.";
  const feed = sketch.family === "summed"
    ? [make("p", null, "A summed sketch takes no events, only merges.")]
    : [make("p", null, "Send the first events from a shell:"), command, make("p", { class: "quiet" }, hint)];
  return card("Events", ...feed, make("div", { class: "actions" }, button), refusal);
}

/** A command that sends the first events. */
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
  const keys = ["/home", "/pricing"];
  if (unit === "user") return { users: [named ? { user: "u1", keys } : keys] };
  return { events: named ? [{ user: "u1", key: "/home" }] : ["/home", { key: "/pricing", count: 3 }] };
}
