/** Makes the lists of a changed object stale: each line of the audit log names its object. */
import { useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import type { Schemas } from "../api/client";
import { areasOf, isCounted } from "./areas";
import { bounded } from "./bounded";
import { stream } from "./stream";

// Our tunables: the least time between two readings of the same lists, and of the counts of a day.
const LISTS_MS = 250;
const HOURS_MS = 5_000;

let hasBegun = false;

/** Watches until the returned function is called. */
export function watchChanges(queries: QueryClient): () => void {
  const refresh = (areas: ReadonlySet<string>) =>
    void queries.invalidateQueries({ predicate: ({ queryKey: [area] }) => areas.has(String(area)) });
  const [lists, hours] = [bounded(LISTS_MS, refresh), bounded(HOURS_MS, refresh)];
  return stream.watch("audit", ({ kind, line }) => {
    const isFirst = !hasBegun;
    hasBegun = true;
    if (kind === "line") {
      lists(areasOf(line as Schemas["NamedLineOut"]));
      if (isCounted(line as Schemas["NamedLineOut"])) hours(["hours"]);
    } else if (!isFirst) {
      // The log's stream begins again under an open page: lines may have been missed.
      void queries.invalidateQueries({ predicate: ({ queryKey: [area] }) => area !== "session" });
    }
  });
}

/** Used by the frame alone. */
export function useChanges(): void {
  const queries = useQueryClient();
  useEffect(() => watchChanges(queries), [queries]);
}
