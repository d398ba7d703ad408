/** The signed-in administrator, and their permissions. */
import { queryOptions, useQuery } from "@tanstack/react-query";

import { api, body, writeWith, type Schemas } from "../api/client";
import { ProblemError } from "../api/problem";
import { firstSession } from "../first";
import { mayWrite } from "./permission";

export type Session = Schemas["SignedInOut"];
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async (): Promise<Session | null> => {
    try {
      const asked = firstSession();
      const session = body(await api.GET("/api/v1/session", asked ? { fetch: () => asked } : {}));
      writeWith(session.csrf_token);
      return session;
    } catch (error) {
      if (error instanceof ProblemError && error.problem.status === 401) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

/** False: the button for this area would be refused, so it is not shown. */
export function useMayWrite(area: string): boolean {
  const session = useQuery(sessionQuery).data;
  return session != null && mayWrite(session.role, area);
}
