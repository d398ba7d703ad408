import { api, page, type Schemas } from "../api/client";
import { pages } from "../shared/pages";

export type Managed = Schemas["ManagedZoneOut"];

/** The zones in whose names devices open tunnels. */
export const managedZonesQuery = {
  ...pages(["dns", "managed"], async (part) =>
    page(await api.GET("/api/v1/dns/managed-zones", { params: { query: part } })),
  ),
  staleTime: 0,
};
