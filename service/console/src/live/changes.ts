/** What anybody changes makes what is shown of it stale: each line of the audit log names its object. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";

import type { Schemas } from "../api/client";
import { areasOf } from "./areas";
import { Source, type Link } from "./source";

type Line = Schemas["AuditLineOut"];

const log = new Source<{ line: Line | null; count: number }>(
  "/api/v1/events/audit",
  { line: null, count: 0 },
  {
    // Lines may have been missed while the stream was away.
    begins: ({ count }) => ({ line: null, count: count + 1 }),
    line: ({ count }, data) => ({ line: data as Line, count: count + 1 }),
  },
);

/** For the frame, once: says whether what is shown is told of changes. */
export function useChanges(): Link {
  const queries = useQueryClient();
  const { state, link } = useSyncExternalStore(log.subscribe, log.current);
  useEffect(() => {
    if (state.count === 0) return;
    const areas = state.line === null ? null : areasOf(state.line);
    void queries.invalidateQueries({
      predicate: ({ queryKey: [area] }) => area !== "session" && (areas?.includes(String(area)) ?? true),
    });
  }, [queries, state]);
  return link;
}
