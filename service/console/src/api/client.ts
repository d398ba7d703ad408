/** The REST API, typed by the controller's own document. A refusal is thrown as ProblemError. */
import createClient from "openapi-fetch";

import { nextCursor } from "./link";
import { refusal } from "./problem";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

const SAFE = ["GET", "HEAD"];
let csrfToken = "";

/** Sets the session's CSRF token, which each write carries. */
export function setCsrfToken(token: string): void {
  csrfToken = token;
}

/** Asks the person for a proof; false when they give none. */
type ProofPrompt = () => Promise<boolean>;
let askForProof: ProofPrompt | null = null;

/** Sets the prompt for a proof; null when no person can be asked. */
export function setProofPrompt(prompt: ProofPrompt | null): void {
  askForProof = prompt;
}

export const api = createClient<paths>({ baseUrl: window.location.origin });

// A request's body can be read only once: a copy is kept until the answer, in case the request must be repeated.
const unanswered = new Map<string, Request>();

api.use({
  onRequest({ request, id }) {
    request.headers.set("Accept-Language", document.documentElement.lang);
    if (SAFE.includes(request.method)) return request;
    unanswered.set(id, request.clone());
    request.headers.set("X-CSRF-Token", csrfToken);
    return request;
  },
  async onResponse({ response, id }) {
    const again = unanswered.get(id);
    unanswered.delete(id);
    if (response.ok) return;
    const refused = await refusal(response);
    if (again === undefined || !(await canRepeat(refused.reason))) throw refused;
    again.headers.set("X-CSRF-Token", csrfToken);
    const repeated = await fetch(again);
    if (!repeated.ok) throw await refusal(repeated);
    return repeated;
  },
  onError({ id }) {
    unanswered.delete(id);
  },
});

/** True if the refused request can be repeated now, with a new proof or a new CSRF token. */
async function canRepeat(reason: string): Promise<boolean> {
  if (reason === "PROOF_NEEDED") return (await askForProof?.()) ?? false;
  if (reason !== "CSRF_INVALID") return false;
  // A proof in another tab has renewed the session, and so the CSRF token, of all tabs.
  const before = csrfToken;
  setCsrfToken(body(await api.GET("/api/v1/session")).csrf_token);
  return csrfToken !== before;
}

/** The body of an answer that has one. */
export function body<Body>(answer: { data?: Body }): Body {
  if (answer.data === undefined) throw new TypeError("an answer without a body");
  return answer.data;
}

/** A row and its version, which a change must name. */
export interface Tagged<Row> {
  row: Row;
  etag: string;
}

export function tagged<Body>(answer: { data?: Body; response: Response }): Tagged<Body> {
  return { row: body(answer), etag: answer.response.headers.get("ETag") ?? "*" };
}

export interface Page<Row> {
  rows: Row[];
  /** The next page's cursor. */
  cursor: string | null;
}

export function page<Row>(answer: { data?: Row[]; response: Response }): Page<Row> {
  return { rows: body(answer), cursor: nextCursor(answer.response.headers.get("Link")) };
}
