import { queryOptions } from "@tanstack/react-query";

import { api, body, page, tagged, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { bothWays, pages, watched, type OrderOf, type Pages } from "../shared/pages";

export type Person = Schemas["UserOut"];
export type PersonUse = Schemas["PersonUseOut"];
export type Reached = Schemas["ReachedOut"];
export type Invitation = Schemas["OpenInvitationOut"];

export type ReachedOrder = OrderOf<paths["/api/v1/users/{name}/access"]>;
export type PersonOrder = OrderOf<paths["/api/v1/users"]>;
export const PERSON_ORDERS = bothWays<PersonOrder>("display_name", "devices", "last_seen", "last_denied");

export const peopleQuery = (filter: { q?: string; sort?: PersonOrder }): Pages<Person> =>
  watched(
    pages(["users", "list", filter], async (part) =>
      page(await api.GET("/api/v1/users", { params: { query: { ...filter, ...part } } })),
    ),
  );

export const personQuery = (name: string) =>
  queryOptions({
    queryKey: ["users", "one", name],
    queryFn: async () => tagged(await api.GET("/api/v1/users/{name}", { params: { path: { name } } })),
  });

export const personUseQuery = (name: string) =>
  queryOptions({
    queryKey: ["users", "use", name],
    queryFn: async () => body(await api.GET("/api/v1/users/{name}/use", { params: { path: { name } } })),
    staleTime: 0,
  });

/** Stale with the policies, whose changes it shows. */
export const reachedQuery = (name: string, sort: ReachedOrder): Pages<Reached> =>
  pages(["policies", "of", "person", name, sort], async (part) => {
    const params = { path: { name }, query: { ...part, sort } };
    return page(await api.GET("/api/v1/users/{name}/access", { params }));
  });

const SOME = 50;

/** Whether an enabled policy lets the person reach a resource, whatever its conditions; of many, some are looked at. */
export const reachesQuery = (name: string) =>
  queryOptions({
    queryKey: ["policies", "of", "person", name, "any"],
    queryFn: async () => {
      const params = { path: { name }, query: { limit: SOME } };
      const { rows, cursor } = page(await api.GET("/api/v1/users/{name}/access", { params }));
      return cursor !== null || rows.some(({ grants }) => grants.some(({ enabled }) => enabled));
    },
  });

export const denialsQuery = (name: string, limit: number) =>
  queryOptions({
    queryKey: ["audit", "denials", name],
    queryFn: async () =>
      body(await api.GET("/api/v1/audit", { params: { query: { person: name, outcome: "denied", limit } } })),
  });

export type InvitationOrder = OrderOf<paths["/api/v1/invitations"]>;
export const INVITATION_ORDERS = bothWays<InvitationOrder>("user", "invited_by", "created", "expires");

export const invitationsQuery = (filter: { q?: string; sort?: InvitationOrder }): Pages<Invitation> =>
  pages(["invitations", "list", filter], async (part) =>
    page(await api.GET("/api/v1/invitations", { params: { query: { ...filter, ...part } } })),
  );
