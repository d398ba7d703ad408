import { api, page, type Schemas } from "../api/client";
import { pages, type Pages } from "../shared/pages";

export type Person = Schemas["UserOut"];

export type Invitation = Schemas["OpenInvitationOut"];

export const peopleQuery = (filter: { q?: string; sort?: "name" | "-name" }): Pages<Person> =>
  pages(["users", "list", filter], async (part) =>
    page(await api.GET("/api/v1/users", { params: { query: { ...filter, ...part } } })),
  );

export const invitationsQuery = (filter: { q?: string }): Pages<Invitation> =>
  pages(["invitations", "list", filter], async (part) =>
    page(await api.GET("/api/v1/invitations", { params: { query: { ...filter, ...part } } })),
  );
