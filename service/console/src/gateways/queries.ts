import { queryOptions } from "@tanstack/react-query";

import { api, body, tagged, type Schemas } from "../api/client";

export type FreePools = Schemas["FreePoolsOut"];

/** Read anew for each form, and not while the form is open. */
export const freePoolsQuery = queryOptions({
  queryKey: ["gateway-enrolments", "free-pools"],
  queryFn: async () => body(await api.GET("/api/v1/gateway-enrolments/free-pools")),
  staleTime: Infinity,
  gcTime: 0,
});

export const gatewayQuery = (name: string) =>
  queryOptions({
    queryKey: ["gateways", "one", name],
    queryFn: async () => tagged(await api.GET("/api/v1/gateways/{name}", { params: { path: { name } } })),
  });
