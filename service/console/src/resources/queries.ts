import { queryOptions } from "@tanstack/react-query";

import { api, body, page, tagged, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { pages, type Pages } from "../shared/pages";

export type Resource = Schemas["ResourceOut"];
export type ResourceIn = Schemas["ResourceIn"];

type Asked = NonNullable<paths["/api/v1/resources"]["get"]["parameters"]["query"]>;
export type ResourceOrder = NonNullable<Asked["sort"]>;
export const ORDERS: readonly ResourceOrder[] = ["fqdn", "-fqdn", "owner", "-owner"];

export interface Filter {
  q?: string;
  gateway?: string;
  sort?: ResourceOrder;
}

export const resourcesQuery = (filter: Filter): Pages<Resource> =>
  pages(["resources", "list", filter], async (part) =>
    page(await api.GET("/api/v1/resources", { params: { query: { ...filter, ...part } } })),
  );

export const resourceQuery = (name: string) =>
  queryOptions({
    queryKey: ["resources", "one", name],
    queryFn: async () => tagged(await api.GET("/api/v1/resources/{name}", { params: { path: { name } } })),
  });

export const resourceUseQuery = (name: string) =>
  queryOptions({
    queryKey: ["resources", "use", name],
    queryFn: async () => body(await api.GET("/api/v1/resources/{name}/use", { params: { path: { name } } })),
    staleTime: 0,
  });

/** The names of people, for the form's choice. */
export const peopleNamesQuery = queryOptions({
  queryKey: ["users", "names"],
  queryFn: async () =>
    body(await api.GET("/api/v1/users", { params: { query: { limit: 500 } } })).map(({ name }) => name),
});
