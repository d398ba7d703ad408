import { queryOptions } from "@tanstack/react-query";

import { api, body, page, tagged, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { bothWays, pages, type OrderOf, type Pages } from "../shared/pages";

export type Group = Schemas["GroupOut"];
export type GroupSummary = Schemas["GroupSummaryOut"];
export type GroupIn = Schemas["GroupIn"];

export interface GroupForm extends Record<string, unknown> {
  name: string;
  members: string[];
}

export type GroupOrder = OrderOf<paths["/api/v1/groups"]>;
export const ORDERS = bothWays<GroupOrder>("name", "members");

export const groupsQuery = (filter: { q?: string; sort?: GroupOrder }): Pages<GroupSummary> =>
  pages(["groups", "list", filter], async (part) =>
    page(await api.GET("/api/v1/groups", { params: { query: { ...filter, ...part } } })),
  );

export const groupQuery = (name: string) =>
  queryOptions({
    queryKey: ["groups", "one", name],
    queryFn: async () => tagged(await api.GET("/api/v1/groups/{name}", { params: { path: { name } } })),
  });

export const groupUseQuery = (name: string) =>
  queryOptions({
    queryKey: ["groups", "use", name],
    queryFn: async () => body(await api.GET("/api/v1/groups/{name}/use", { params: { path: { name } } })),
    staleTime: 0,
  });

export const previewGroup = async (asked: GroupIn, replaces: string | null) =>
  body(
    await api.POST("/api/v1/groups/preview", {
      params: { query: replaces === null ? {} : { replaces } },
      body: asked,
    }),
  );

export const formOf = ({ name, members }: Group): GroupForm => ({ name, members });
export const groupOf = ({ name, members }: GroupForm): GroupIn => ({ name: name.trim(), members });
export const FIELDS = ["name", "members"];
