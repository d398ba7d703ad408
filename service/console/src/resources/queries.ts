import { queryOptions } from "@tanstack/react-query";

import { api, body, page, tagged, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { bothWays, pages, type OrderOf, type Pages } from "../shared/pages";

export type Resource = Schemas["ResourceOut"];
export type ResourceIn = Schemas["ResourceIn"];

export type ResourceOrder = OrderOf<paths["/api/v1/resources"]>;
export const ORDERS = bothWays<ResourceOrder>("fqdn", "owner");

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

/** `replaces`: the name of the resource that would be changed; null for a new one. */
export const previewResource = async (asked: ResourceIn, replaces: string | null) =>
  body(
    await api.POST("/api/v1/resources/preview", {
      params: { query: replaces === null ? {} : { replaces } },
      body: asked,
    }),
  );
