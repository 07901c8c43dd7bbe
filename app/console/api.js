// Talks to the service. The key lives in this module's memory and nowhere else: a reload forgets it.

let key = null;
let whenKeyFails = () => {};

/** A refusal (RFC 9457), or no answer at all: then the status is 0. */
export class Problem extends Error {
  constructor(status, facts) {
    super(facts.detail);
    this.status = status;
    this.title = facts.title;
    this.slug = (facts.type ?? "").split(":").pop();
    this.facts = facts;
  }
}

export const isSignedIn = () => key !== null;

export function forgetKey() {
  key = null;
}

/** What to do when the service no longer takes the key. */
export function onKeyFailure(action) {
  whenKeyFails = action;
}

/** Keep the key if the service takes it; otherwise throw its Problem. */
export async function signIn(candidate) {
  if (!/^[\x20-\x7e]+$/.test(candidate)) {
    throw new Problem(401, { title: "This is not a key", detail: "A key has only letters, digits and plain signs." });
  }
  await answer("/v1/sketches?limit=1", { key: candidate });
  key = candidate;
}

export async function getJson(path) {
  return (await request(path)).json();
}

/** The same resource as a picture. */
export async function getPicture(path) {
  return (await request(path, { accept: "image/svg+xml" })).text();
}

export async function sendJson(method, path, body, idempotencyKey) {
  const response = await request(path, { method, body, idempotencyKey });
  return { status: response.status, body: await response.json() };
}

/** Not crypto.randomUUID: that is missing where the page came over plain HTTP. */
export function newIdempotencyKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return "console-" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function request(path, options = {}) {
  try {
    return await answer(path, { key, ...options });
  } catch (problem) {
    if (problem.status === 401) whenKeyFails(problem);
    throw problem;
  }
}

async function answer(path, { key, method = "GET", accept = "application/json", body, idempotencyKey }) {
  const headers = { Accept: accept, Authorization: `Bearer ${key}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (idempotencyKey) headers["Idempotency-Key"] = idempotencyKey;
  const response = await fetch(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store", // histograms do not stay on the disk of whoever looked at them
    credentials: "omit",
  }).catch(() => {
    throw new Problem(0, { title: "No answer", detail: "The service cannot be reached. Nothing is lost; try again." });
  });
  if (response.ok) return response;
  const facts = await response.json().catch(() => ({}));
  throw new Problem(response.status, { title: `Refused (${response.status})`, detail: "", ...facts });
}
