import { msg } from "@lingui/core/macro";
import { queryOptions } from "@tanstack/react-query";

import { api, body, page, type Schemas } from "../api/client";
import type { Text } from "../locale/language";
import { pages, type Pages } from "../shared/pages";

export type Passkey = Schemas["PasskeyOut"];
export type Administrator = Schemas["AdminOut"];
export type Token = Schemas["ApiTokenOut"];
export type Role = Administrator["role"];

export const ROLES: readonly { value: Role; label: Text; about: Text }[] = [
  { value: "owner", label: msg({ context: "role", message: "Owner" }), about: msg`everything` },
  {
    value: "admin",
    label: msg({ context: "role", message: "Admin" }),
    about: msg`everything but administrators and API tokens`,
  },
  { value: "auditor", label: msg({ context: "role", message: "Auditor" }), about: msg`read-only access` },
];

/** All credentials and sessions of the person's own account. */
export const credentialsQuery = queryOptions({
  queryKey: ["account", "credentials"],
  queryFn: async () => body(await api.GET("/api/v1/session/credentials")),
});

export const invitationsQuery = queryOptions({
  queryKey: ["admins", "invitations"],
  queryFn: async () => body(await api.GET("/api/v1/admins/invitations")),
});

export const adminsQuery: Pages<Administrator> = pages(["admins", "list"], async (part) =>
  page(await api.GET("/api/v1/admins", { params: { query: part } })),
);

export const tokensQuery: Pages<Token> = pages(["tokens", "list"], async (part) =>
  page(await api.GET("/api/v1/tokens", { params: { query: part } })),
);

/** All API tokens that an administrator has made. */
export const tokensByQuery = (name: string) =>
  queryOptions({
    queryKey: ["tokens", "by", name],
    queryFn: async () => {
      const found: Token[] = [];
      for (let cursor: string | null | undefined; cursor !== null;) {
        const part = cursor === undefined ? {} : { cursor };
        const { rows, cursor: next } = page(await api.GET("/api/v1/tokens", { params: { query: part } }));
        found.push(...rows.filter(({ created_by }) => created_by === name));
        cursor = next;
      }
      return found;
    },
  });

export const scopesQuery = queryOptions({
  queryKey: ["tokens", "scopes"],
  queryFn: async () => body(await api.GET("/api/v1/tokens/scopes")),
  staleTime: Infinity,
});

export const controllerQuery = queryOptions({
  queryKey: ["controller"],
  queryFn: async () => body(await api.GET("/api/v1/controller")),
});
