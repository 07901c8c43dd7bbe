// Requests to the service. The API key is kept in this module's memory and nowhere else, so a reload forgets it.

let apiKey = null;
let whenKeyFails = () => {};

/** A refusal by the service (RFC 9457); with status 0, there was no answer at all. */
export class Problem extends Error {
  constructor(status, facts) {
    super(facts.detail);
    this.status = status;
    this.title = facts.title;
    this.slug = (facts.type ?? "").split(":").pop();
    this.facts = facts;
  }
}

/** Whether there is an API key to ask with. */
export const isSignedIn = () => apiKey !== null;

/** Forget the API key; the next request needs another. */
export function forgetKey() {
  apiKey = null;
}

/** Say what is to be done when the service no longer accepts the API key. */
export function onKeyFailure(action) {
  whenKeyFails = action;
}

/** Keep the API key if the service accepts it; otherwise throw its Problem. */
export async function signIn(candidate) {
  if (!/^[\x20-\x7e]+$/.test(candidate)) {
    throw new Problem(401, { title: "This is not a key", detail: "A key has only letters, digits and plain signs." });
  }
  await ask("/v1/sketches?limit=1", { apiKey: candidate });
  apiKey = candidate;
}

/** The document at a path. */
export async function getJson(path) {
  return (await request(path)).json();
}

/** The histogram at a path as a picture, in SVG. */
export async function getPicture(path) {
  return (await request(path, { accept: "image/svg+xml" })).text();
}

/** Have something done, once if there is an idempotency key; gives the status and the document of the answer. */
export async function sendJson(method, path, body, idempotencyKey) {
  const response = await request(path, { method, body, idempotencyKey });
  return { status: response.status, body: await response.json() };
}

/** A random idempotency key. crypto.randomUUID would do, but it is missing where the page came over plain HTTP. */
export function newIdempotencyKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return "console-" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Ask with the API key that was kept. If the service no longer accepts it, whoever waits for that is told. */
async function request(path, options = {}) {
  try {
    return await ask(path, { apiKey, ...options });
  } catch (problem) {
    if (problem.status === 401) whenKeyFails(problem);
    throw problem;
  }
}

/** Send one request. Gives the response, or throws a Problem if the service refuses or does not answer. */
async function ask(path, { apiKey, method = "GET", accept = "application/json", body, idempotencyKey }) {
  const headers = { Accept: accept, Authorization: `Bearer ${apiKey}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (idempotencyKey) headers["Idempotency-Key"] = idempotencyKey;
  const response = await fetch(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store", // a browser that showed a histogram does not keep it on its disk
    credentials: "omit",
  }).catch(() => {
    throw new Problem(0, { title: "No answer", detail: "The service cannot be reached. Nothing is lost; try again." });
  });
  if (response.ok) return response;
  const facts = await response.json().catch(() => ({}));
  throw new Problem(response.status, { title: `Refused (${response.status})`, detail: "", ...facts });
}
