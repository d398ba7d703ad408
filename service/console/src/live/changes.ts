/** Makes the lists of a changed object stale: each line of the audit log names its object. */
import { useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import type { Schemas } from "../api/client";
import { areasOf } from "./areas";
import { stream } from "./stream";

let hasBegun = false;

/** Watches until the returned function is called. */
export function watchChanges(queries: QueryClient): () => void {
  return stream.watch("audit", ({ kind, line }) => {
    const isFirst = !hasBegun;
    hasBegun = true;
    if (kind === "begins" && isFirst) return;
    // If the log's stream begins again under an open page, lines may have been missed.
    const areas = kind === "line" ? areasOf(line as Schemas["NamedLineOut"]) : null;
    void queries.invalidateQueries({
      predicate: ({ queryKey: [area] }) => area !== "session" && (areas?.includes(String(area)) ?? true),
    });
  });
}

/** Used by the frame alone. */
export function useChanges(): void {
  const queries = useQueryClient();
  useEffect(() => watchChanges(queries), [queries]);
}
