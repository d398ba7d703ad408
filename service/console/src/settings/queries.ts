import { queryOptions } from "@tanstack/react-query";

import { api, body, page, type Schemas } from "../api/client";
import { pages, type Pages } from "../shared/pages";

export type Passkey = Schemas["PasskeyOut"];
export type OwnSession = Schemas["SessionOut"];
export type Administrator = Schemas["AdminOut"];
export type Token = Schemas["ApiTokenOut"];
export type Role = Administrator["role"];

export const ROLES: readonly { value: Role; label: string; about: string }[] = [
  { value: "owner", label: "Owner", about: "everything" },
  { value: "admin", label: "Admin", about: "everything but administrators and API tokens" },
  { value: "auditor", label: "Auditor", about: "looks, and changes nothing" },
];

export const passkeysQuery = queryOptions({
  queryKey: ["account", "passkeys"],
  queryFn: async () => body(await api.GET("/api/v1/session/passkeys")),
});

export const sessionsQuery = queryOptions({
  queryKey: ["account", "sessions"],
  queryFn: async () => body(await api.GET("/api/v1/session/sessions")),
});

export const adminsQuery: Pages<Administrator> = pages(["admins", "list"], async (part) =>
  page(await api.GET("/api/v1/admins", { params: { query: part } })),
);

export const tokensQuery: Pages<Token> = pages(["tokens", "list"], async (part) =>
  page(await api.GET("/api/v1/tokens", { params: { query: part } })),
);

export const scopesQuery = queryOptions({
  queryKey: ["tokens", "scopes"],
  queryFn: async () => body(await api.GET("/api/v1/tokens/scopes")),
  staleTime: Infinity,
});

export const controllerQuery = queryOptions({
  queryKey: ["controller"],
  queryFn: async () => body(await api.GET("/api/v1/controller")),
});
