// The console: chooses the view, signs in and out, sets colours. Each view is a module, named by the address after #.

import { forgetKey, isSignedIn, onKeyFailure, Problem, signIn } from "/static/api.js";
import { attempt, card, field, make, problemBox, say } from "/static/dom.js";
import { newSketchView } from "/static/create.js";
import { ledgerView } from "/static/ledger.js";
import { sketchView } from "/static/sketch.js";
import { sketchesView } from "/static/sketches.js";

const VIEWS = [
  [/^#\/sketches\/([^/]+)$/, sketchView],
  [/^#\/ledgers\/([^/]+)$/, ledgerView],
  [/^#\/new$/, newSketchView],
  [/^/, sketchesView],
];
const main = document.getElementById("main");
const signOutButton = document.getElementById("sign-out");
let lastTurn = 0; // counts what was asked to be shown

/** Show the view that the address names. If the person has gone on before it was loaded, it is dropped. */
async function show() {
  const turn = ++lastTurn;
  const focusedBefore = document.activeElement;
  signOutButton.hidden = !isSignedIn();
  main.setAttribute("aria-busy", "true");
  let content;
  try {
    content = isSignedIn() ? await viewOf(location.hash) : signInView();
  } finally {
    if (turn === lastTurn) main.removeAttribute("aria-busy");
  }
  if (turn !== lastTurn) return;
  const moved = ![focusedBefore, document.body].includes(document.activeElement);
  // Whoever moved the focus elsewhere while the view was loading keeps it there.
  const tabbedOn = moved && !main.contains(document.activeElement);
  main.replaceChildren(...content);
  const heading = main.querySelector("h1");
  document.title = `${heading.textContent} · Discreet`;
  if (!tabbedOn) (main.querySelector("[data-focus]") ?? heading).focus();
  scrollTo(0, 0);
}

/** The elements of the view that the address names, or of a page that says why it cannot be shown. */
async function viewOf(hash) {
  const [pattern, view] = VIEWS.find(([pattern]) => pattern.test(hash));
  try {
    return await view(...pattern.exec(hash).slice(1));
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    const again = make("button", { type: "button", class: "plain", click: show }, "Try again");
    return [make("h1", { tabindex: -1 }, "This cannot be shown"), problemBox(problem), again];
  }
}

function signInView() {
  const apiKey = make("input", {
    type: "password", name: "key", required: true, autocomplete: "off", spellcheck: "false", "data-focus": true,
  });
  const refusal = make("div");
  const submitted = (event) => {
    event.preventDefault();
    attempt(event.target, refusal, async () => {
      await signIn(apiKey.value.trim());
      say("Signed in.");
      await show();
    }, signInProblem);
  };
  const form = make(
    "form",
    { submit: submitted },
    field("API key", apiKey, "With the scope read. Kept in this page's memory; forgotten when you reload or leave."),
    make("div", { class: "actions" }, make("button", null, "Sign in")),
    refusal,
  );
  return [
    make("h1", { tabindex: -1 }, "Sign in"),
    make("p", { class: "lead" }, "Private histograms of event streams, and what they cost."),
    make("div", { class: "narrow" }, card("Paste a key", form)),
  ];
}

/** A valid API key without the right to read gets words of its own. */
function signInProblem(problem) {
  if (problem.status !== 403) return problemBox(problem);
  const message = `${problem.message} Ask for one, or use this key with the API.`;
  return problemBox({ title: "The key is valid, but may not read", message });
}

function signOut(words) {
  forgetKey();
  say(words);
  return show();
}

function setUpColours() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : preferred.matches);
  const label = () => (button.textContent = isDark() ? "Light colours" : "Dark colours");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  preferred.addEventListener("change", label);
  label();
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // following the link would change the part of the address after #, which names the view
  main.focus();
});
signOutButton.addEventListener("click", () => signOut("Signed out. The key is forgotten."));
onKeyFailure((problem) => signOut(`The key is no longer accepted: ${problem.message}`));
addEventListener("hashchange", () => {
  say("");
  show();
});
setUpColours();
show();
