/** The signed-in administrator, and their permissions. */
import { queryOptions, useQuery, type QueryClient } from "@tanstack/react-query";

import { api, body, setCsrfToken, type Schemas } from "../api/client";
import { ProblemError } from "../api/problem";
import { firstSession } from "../first";
import { mayWrite } from "./permission";

export type Session = Schemas["SignedInOut"];
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async (): Promise<Session | null> => {
    try {
      const answer = firstSession();
      const session = body(await api.GET("/api/v1/session", answer ? { fetch: () => answer } : {}));
      setCsrfToken(session.csrf_token);
      return session;
    } catch (error) {
      if (error instanceof ProblemError && error.problem.status === 401) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

/** Takes over a new session, or the same one with a new cookie. */
export function enter(queries: QueryClient, session: Session): void {
  setCsrfToken(session.csrf_token);
  queries.setQueryData(sessionQuery.queryKey, session);
}

/** Whether the administrator may change this area; buttons for other areas are not shown. */
export function useMayWrite(area: string): boolean {
  const session = useQuery(sessionQuery).data;
  return session != null && mayWrite(session.role, area);
}
