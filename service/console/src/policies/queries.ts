import { queryOptions } from "@tanstack/react-query";

import { api, body, page, tagged, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { bothWays, pages, type OrderOf, type Pages } from "../shared/pages";

export type Policy = Schemas["PolicyOut"];
export type PolicyIn = Schemas["PolicyIn"];
export type Conditions = Schemas["Conditions"];

export type PolicyOrder = OrderOf<paths["/api/v1/policies"]>;
export const ORDERS = bothWays<PolicyOrder>("name", "subject", "last_used");

export const policiesQuery = ({
  use,
  ...filter
}: {
  q?: string;
  use?: "unused";
  sort?: PolicyOrder;
}): Pages<Policy> =>
  pages(["policies", "list", { use, ...filter }], async (part) => {
    const query = { ...filter, ...part, unused: use === "unused" };
    return page(await api.GET("/api/v1/policies", { params: { query } }));
  });

export const policyQuery = (name: string) =>
  queryOptions({
    queryKey: ["policies", "one", name],
    queryFn: async () => tagged(await api.GET("/api/v1/policies/{name}", { params: { path: { name } } })),
  });

export type Fact = Schemas["FactOut"];

/** The facts that devices report. */
export const factsQuery = queryOptions({
  queryKey: ["devices", "facts"],
  queryFn: async () => body(await api.GET("/api/v1/devices/facts")),
});

export const policyUseQuery = (name: string) =>
  queryOptions({
    queryKey: ["policies", "use", name],
    queryFn: async () => body(await api.GET("/api/v1/policies/{name}/use", { params: { path: { name } } })),
    staleTime: 0,
  });

export const previewPolicy = async (asked: PolicyIn, replaces: string | null) =>
  body(
    await api.POST("/api/v1/policies/preview", {
      params: { query: replaces === null ? {} : { replaces } },
      body: asked,
    }),
  );

/** All policies of a resource or of a group. */
export async function allPolicies(of: { group: string } | { resource: string }): Promise<Policy[]> {
  const found: Policy[] = [];
  let cursor: string | null = null;
  do {
    const part: { rows: Policy[]; cursor: string | null } = page(
      await api.GET("/api/v1/policies", {
        params: { query: { ...of, limit: 500, ...(cursor !== null && { cursor }) } },
      }),
    );
    found.push(...part.rows);
    cursor = part.cursor;
  } while (cursor !== null);
  return found;
}
