import { queryOptions } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { api, body, page, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { merged } from "../shared/search";
import { bothWays, pages, type OrderOf, type Pages } from "../shared/pages";

export type Passkey = Schemas["PasskeyOut"];
export type Administrator = Schemas["AdminOut"];
export type Token = Schemas["ApiTokenOut"];
export type Role = Administrator["role"];

/** All credentials and sessions of the person's own account. */
export const credentialsQuery = queryOptions({
  queryKey: ["account", "credentials"],
  queryFn: async () => body(await api.GET("/api/v1/session/credentials")),
});

export const invitationsQuery = queryOptions({
  queryKey: ["admins", "invitations"],
  queryFn: async () => body(await api.GET("/api/v1/admins/invitations")),
});

type AdministratorOrder = OrderOf<paths["/api/v1/admins"]>;
type TokenOrder = OrderOf<paths["/api/v1/tokens"]>;
const ADMINISTRATOR_ORDERS = bothWays<AdministratorOrder>("name", "role", "confirmed");
const TOKEN_ORDERS = bothWays<TokenOrder>("name", "created_by", "expires");

/** The orders of the lists behind all tabs. */
export const ORDERS = [...new Set([...ADMINISTRATOR_ORDERS, ...TOKEN_ORDERS])];

export const adminsQuery = (filter: { q?: string; sort: AdministratorOrder }): Pages<Administrator> =>
  pages(["admins", "list", filter], async (part) =>
    page(await api.GET("/api/v1/admins", { params: { query: { ...filter, ...part } } })),
  );

export const tokensQuery = (filter: { q?: string; sort: TokenOrder }): Pages<Token> =>
  pages(["tokens", "list", filter], async (part) =>
    page(await api.GET("/api/v1/tokens", { params: { query: { ...filter, ...part } } })),
  );

/** The search and the order in the page's address. The order is `"name"` if the address has none that the list knows. */
function useFilter<Order extends string>(orders: readonly Order[]) {
  const { q, sort } = useSearch({ from: "/frame/settings" });
  const navigate = useNavigate({ from: "/settings" });
  const show = (change: { q?: string; sort?: NonNullable<typeof sort> }) =>
    void navigate({ search: (before) => merged(before, change), replace: true });
  const by = orders.find((one) => one === sort) ?? ("name" as Order);
  return {
    filter: { sort: by, ...(q !== undefined && { q }) },
    onSearch: (text: string) => show({ q: text }),
    sorting: { by, onSort: (order: string) => show({ sort: order as NonNullable<typeof sort> }) },
  };
}

type Dialog = "add" | "invite";

/** The dialog in the page's address. */
export function useDialog(): [Dialog | undefined, (dialog: Dialog | undefined) => void] {
  const { dialog } = useSearch({ from: "/frame/settings" });
  const navigate = useNavigate({ from: "/settings" });
  return [
    dialog,
    (next) => void navigate({ search: (before) => merged(before, { dialog: next }), replace: true }),
  ];
}

export const useAdministratorFilter = () => useFilter(ADMINISTRATOR_ORDERS);
export const useTokenFilter = () => useFilter(TOKEN_ORDERS);

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
