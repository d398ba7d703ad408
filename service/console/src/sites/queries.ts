import { queryOptions } from "@tanstack/react-query";

import { api, page, tagged, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { bothWays, pages, type OrderOf, type Pages } from "../shared/pages";

export type SiteTunnel = Schemas["SiteTunnelOut"];
export type SiteTunnelIn = Schemas["SiteTunnelIn"];
export type SiteTunnelChange = Schemas["SiteTunnelChange"];
export type End = SiteTunnel["ends"][number];

// A site tunnel that comes up writes no line to the audit log.
const AGAIN_MS = 2000;

export type SiteTunnelOrder = OrderOf<paths["/api/v1/site-tunnels"]>;
export const ORDERS = bothWays<SiteTunnelOrder>("name", "state", "keyed");

export const siteTunnelsQuery = (filter: { q?: string; sort?: SiteTunnelOrder }): Pages<SiteTunnel> => ({
  ...pages(["site-tunnels", "list", filter], async (part) =>
    page(await api.GET("/api/v1/site-tunnels", { params: { query: { ...filter, ...part } } })),
  ),
  refetchInterval: ({ state: { data } }) =>
    data?.pages.some(({ rows }) => rows.some(({ state }) => state !== "up")) ? AGAIN_MS : false,
});

export const siteTunnelQuery = (name: string) =>
  queryOptions({
    queryKey: ["site-tunnels", "one", name],
    queryFn: async () => tagged(await api.GET("/api/v1/site-tunnels/{name}", { params: { path: { name } } })),
    refetchInterval: ({ state: { data } }) => (data && data.row.state !== "up" ? AGAIN_MS : false),
  });
