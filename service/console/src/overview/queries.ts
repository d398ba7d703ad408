import { queryOptions } from "@tanstack/react-query";

import { api, body, page } from "../api/client";

const SHOWN_MAX = 20;
const IDLE_MAX = 24;
const AGAIN_MS = 60_000;

/** Openings and denials of the last 24 hours: read with the log's lines about them, and each minute for the hour's end. */
export const hoursQuery = queryOptions({
  queryKey: ["hours"],
  queryFn: async () => body(await api.GET("/api/v1/audit/hours")),
  refetchInterval: AGAIN_MS,
});

export const pendingQuery = queryOptions({
  queryKey: ["devices", "pending"],
  queryFn: async () => {
    const query = { approval_needed: true, limit: SHOWN_MAX };
    const { rows, cursor } = page(await api.GET("/api/v1/devices", { params: { query } }));
    return { count: rows.length, isMore: cursor !== null };
  },
});

/** The number of assertions that do not hold. */
export const brokenQuery = queryOptions({
  queryKey: ["assertions", "broken"],
  queryFn: async () => body(await api.GET("/api/v1/assertions")).filter(({ holds }) => !holds).length,
});

export const unusedQuery = queryOptions({
  queryKey: ["policies", "unused"],
  queryFn: async () => {
    const query = { unused: true, limit: SHOWN_MAX };
    const { rows, cursor } = page(await api.GET("/api/v1/policies", { params: { query } }));
    return { count: rows.length, isMore: cursor !== null };
  },
});

/** The first resources by name, for the places on the map that no tunnel takes. */
export const idleQuery = queryOptions({
  queryKey: ["resources", "map"],
  queryFn: async () => body(await api.GET("/api/v1/resources", { params: { query: { limit: IDLE_MAX } } })),
});
