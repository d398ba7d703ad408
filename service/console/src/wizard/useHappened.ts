/** Reads each step's state from rows and from the audit log, whose live view reports new lines. */
import { useQuery } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { useGateways } from "../live/live";
import type { Happened } from "./steps";

// No line of the audit log says that a record is live, or names the policies that a resource comes with.
const LOOK_MS = 2000;
const ONE = { limit: 1 };

/** Whether the log's first lines have been removed by their age; null: not known yet. */
export function useOld(): boolean | null {
  const retention = useQuery({
    queryKey: ["audit", "retention"],
    queryFn: async () => body(await api.GET("/api/v1/audit/retention")),
  });
  return retention.data ? retention.data.removed > 0 : null;
}

export function useHappened(): Happened {
  const gateways = useGateways().rows;
  const resource = useQuery({
    queryKey: ["resources", "any"],
    queryFn: async () => body(await api.GET("/api/v1/resources", { params: { query: ONE } })).length > 0,
  });
  const zone = useQuery({
    queryKey: ["dns", "zone", "any"],
    queryFn: async () => body(await api.GET("/api/v1/dns/zones", { params: { query: ONE } })).length > 0,
  });
  const record = useQuery({
    queryKey: ["dns", "any"],
    queryFn: async () =>
      body(await api.GET("/api/v1/dns", { params: { query: { ...ONE, state: "live" } } })).length > 0,
    refetchInterval: ({ state }) => (state.data === true ? false : LOOK_MS),
  });
  const allowed = useQuery({
    queryKey: ["policies", "any"],
    queryFn: async () => body(await api.GET("/api/v1/policies", { params: { query: ONE } })).length > 0,
    refetchInterval: ({ state }) => (state.data === true ? false : LOOK_MS),
  });
  const invited = useDone("user.invite");
  const opened = useDone("tunnel.open");
  return {
    // One that is away now has been connected all the same.
    gateway: gateways && [...gateways.values()].some(({ reconciled_at }) => reconciled_at !== null),
    zone: zone.data ?? null,
    resource: resource.data ?? null,
    record: record.data ?? null,
    invited,
    allowed: allowed.data ?? null,
    opened,
  };
}

function useDone(action: string): boolean | null {
  const line = useQuery({
    queryKey: ["audit", "any", action],
    queryFn: async () => {
      const query = { ...ONE, action, outcome: "done" as const };
      return body(await api.GET("/api/v1/audit", { params: { query } })).length > 0;
    },
  });
  return line.data ?? null;
}
