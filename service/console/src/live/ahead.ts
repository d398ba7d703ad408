/** Loads the session and the overview's stream before the first page is drawn. */
import type { QueryClient } from "@tanstack/react-query";

import { firstStream } from "../first";
import { sessionQuery } from "../session/session";
import { watchChanges } from "./changes";
import { gateways, traffic, tunnels } from "./live";
import { stream } from "./stream";

// By then the page's own components watch.
const DRAWN_MS = 5000;

/** Resolves when the session is known; for a signed-in administrator the early stream continues. */
export async function lookAhead(queries: QueryClient): Promise<void> {
  const session = await queries.query({ ...sessionQuery, staleTime: "static" }).catch(() => null);
  const begun = firstStream();
  if (begun === null) return;
  if (session === null || begun.source.readyState === EventSource.CLOSED) {
    begun.source.close();
    return;
  }
  const watched = [
    ...[gateways, traffic, tunnels].map((source) => source.subscribe(() => undefined)),
    // The frame's view: adding it later would need another stream.
    watchChanges(queries),
  ];
  stream.goOn(begun);
  window.setTimeout(() => watched.forEach((release) => release()), DRAWN_MS);
}
