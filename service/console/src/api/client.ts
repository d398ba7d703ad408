/** The REST API, typed by the controller's own document. A refusal is thrown as ProblemError. */
import createClient from "openapi-fetch";

import { nextCursor } from "./link";
import { refusal } from "./problem";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

const SAFE = ["GET", "HEAD"];
let csrfToken = "";

/** From the answer that told who is signed in; each write carries it. */
export function writeWith(token: string): void {
  csrfToken = token;
}

export const api = createClient<paths>({ baseUrl: window.location.origin });

api.use({
  onRequest({ request }) {
    if (!SAFE.includes(request.method)) request.headers.set("X-CSRF-Token", csrfToken);
    return request;
  },
  async onResponse({ response }) {
    if (!response.ok) throw await refusal(response);
  },
});

/** The body of an answer that has one. */
export function body<Body>(answer: { data?: Body }): Body {
  if (answer.data === undefined) throw new TypeError("an answer without a body");
  return answer.data;
}

/** A row and the version that a change of it has to name. */
export interface Tagged<Row> {
  row: Row;
  etag: string;
}

export function tagged<Body>(answer: { data?: Body; response: Response }): Tagged<Body> {
  return { row: body(answer), etag: answer.response.headers.get("ETag") ?? "*" };
}

export interface Page<Row> {
  rows: Row[];
  /** For the page after this one. */
  cursor: string | null;
}

export function page<Row>(answer: { data?: Row[]; response: Response }): Page<Row> {
  return { rows: body(answer), cursor: nextCursor(answer.response.headers.get("Link")) };
}
