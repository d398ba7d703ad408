import { queryOptions } from "@tanstack/react-query";

import { api, body, page, tagged, type Schemas } from "../api/client";
import { pages, type Pages } from "../shared/pages";

export type Person = Schemas["UserOut"];
export type PersonUse = Schemas["PersonUseOut"];
export type Reached = Schemas["ReachedOut"];
export type Invitation = Schemas["OpenInvitationOut"];

export const peopleQuery = (filter: { q?: string; sort?: "name" | "-name" }): Pages<Person> =>
  pages(["users", "list", filter], async (part) =>
    page(await api.GET("/api/v1/users", { params: { query: { ...filter, ...part } } })),
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
export const reachedQuery = (name: string): Pages<Reached> =>
  pages(["policies", "of", "person", name], async (part) =>
    page(await api.GET("/api/v1/users/{name}/access", { params: { path: { name }, query: part } })),
  );

export const denialsQuery = (name: string, limit: number) =>
  queryOptions({
    queryKey: ["audit", "denials", name],
    queryFn: async () =>
      body(await api.GET("/api/v1/audit", { params: { query: { person: name, outcome: "denied", limit } } })),
  });

export const invitationsQuery = (filter: { q?: string }): Pages<Invitation> =>
  pages(["invitations", "list", filter], async (part) =>
    page(await api.GET("/api/v1/invitations", { params: { query: { ...filter, ...part } } })),
  );
