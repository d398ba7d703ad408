/** The samples of a gateway's counters. */
import { useQuery } from "@tanstack/react-query";

import { api, body } from "../api/client";
import type { Sample } from "./samples";

/** The periods to choose from; the last one unless another is chosen. */
export const HOURS = [1, 6, 24] as const;
export const HOURS_AT_FIRST = 24;

const AGAIN_MS = 10_000;

export function useSamples(name: string, hours: number) {
  return useQuery({
    queryKey: ["samples", name, hours],
    queryFn: async () =>
      body(
        await api.GET("/api/v1/gateways/{name}/samples", { params: { path: { name }, query: { hours } } }),
      ),
    refetchInterval: AGAIN_MS,
    placeholderData: (before: Sample[] | undefined) => before,
  });
}
