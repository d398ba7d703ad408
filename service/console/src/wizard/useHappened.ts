/** Reads each step's state from rows and from the audit log, whose live view reports new lines. */
import { useQuery } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { useGateways } from "../live/live";
import type { Happened } from "./steps";

// A record that becomes live writes no line to the audit log.
const LOOK_MS = 2000;
const ONE = { limit: 1 };

export function useHappened(): Happened {
  const gateways = useGateways().rows;
  const resource = useQuery({
    queryKey: ["resources", "any"],
    queryFn: async () => body(await api.GET("/api/v1/resources", { params: { query: ONE } })).length > 0,
  });
  const record = useQuery({
    queryKey: ["dns", "any"],
    queryFn: async () =>
      body(await api.GET("/api/v1/dns", { params: { query: { ...ONE, state: "live" } } })).length > 0,
    refetchInterval: ({ state }) => (state.data === true ? false : LOOK_MS),
  });
  const invited = useDone("user.invite");
  const opened = useDone("tunnel.open");
  return {
    // One that is away now has been connected all the same.
    gateway: gateways && [...gateways.values()].some(({ reconciled_at }) => reconciled_at !== null),
    resource: resource.data ?? null,
    record: record.data ?? null,
    invited,
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
