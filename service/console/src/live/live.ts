/** The controller's live views, for components. */
import { useSyncExternalStore } from "react";

import type { Schemas } from "../api/client";
import { after, type Rows } from "./rows";
import { Source, type Link } from "./source";

export type Tunnel = Schemas["TunnelOut"];
export type Gateway = Schemas["GatewayOut"];
export type Zone = Schemas["ZoneOut"];
export type Published = Schemas["DnsRecordOut"];
export type DnsRow = Zone | Published;

function view<Row>(area: string): Source<Rows<Row> | null> {
  return new Source<Rows<Row> | null>(`/api/v1/events/${area}`, null, {
    snapshot: (_, data) =>
      after(new Map<string, Row>(), { kind: "snapshot", ...(data as { rows: Record<string, Row> }) }),
    changed: (rows, data) => rows && after(rows, { kind: "changed", ...(data as { key: string; row: Row }) }),
    gone: (rows, data) => rows && after(rows, { kind: "gone", ...(data as { key: string }) }),
  });
}

const tunnels = view<Tunnel>("tunnels");
const gateways = view<Gateway>("gateways");
const dns = view<DnsRow>("dns");

/** The rows by key; null until they are known. */
export interface Live<Row> {
  rows: Rows<Row> | null;
  link: Link;
}

function useView<Row>(source: Source<Rows<Row> | null>): Live<Row> {
  const { state, link } = useSyncExternalStore(source.subscribe, source.current);
  return { rows: state, link };
}

export const useTunnels = (): Live<Tunnel> => useView(tunnels);
export const useDns = (): Live<DnsRow> => useView(dns);
export const useGateways = (): Live<Gateway> => useView(gateways);
