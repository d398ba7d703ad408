import { queryOptions } from "@tanstack/react-query";

import { api, tagged } from "../api/client";

export const gatewayQuery = (name: string) =>
  queryOptions({
    queryKey: ["gateways", "one", name],
    queryFn: async () => tagged(await api.GET("/api/v1/gateways/{name}", { params: { path: { name } } })),
  });
