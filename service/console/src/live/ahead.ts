/** What the first page shows is asked for while it is still being drawn. */
import type { QueryClient } from "@tanstack/react-query";

import { sessionQuery } from "../session/session";
import { watchChanges } from "./changes";
import { gateways, traffic, tunnels } from "./live";
import { stream } from "./stream";

// By then the page's own parts watch.
const DRAWN_MS = 5000;

/** For the overview, whose views these are, before any part of it is there; nothing for who is not signed in. */
export async function lookAhead(queries: QueryClient): Promise<void> {
  const session = await queries.query({ ...sessionQuery, staleTime: "static" }).catch(() => null);
  if (session === null) return;
  const watched = [
    ...[gateways, traffic, tunnels].map((source) => source.subscribe(() => undefined)),
    // The frame's: another view later would be another stream.
    watchChanges(queries),
  ];
  stream.settle();
  window.setTimeout(() => watched.forEach((release) => release()), DRAWN_MS);
}
