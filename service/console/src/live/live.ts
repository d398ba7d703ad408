/** The controller's live views, for components. */
import { useMemo, useSyncExternalStore } from "react";

import type { Schemas } from "../api/client";
import { after, type LiveEvent, type Rows } from "./rows";
import { Source } from "./source";
import { stream, type Link, type View } from "./stream";

export type Tunnel = Schemas["TunnelOut"];
export type Gateway = Schemas["GatewayOut"];
export type Zone = Schemas["ZoneOut"];
export type Published = Schemas["DnsRecordOut"];
export type DnsRow = Zone | Published;
/** Bytes per second. */
export interface Rate {
  from_device: number;
  to_device: number;
}

function view<Row>(name: View): Source<Rows<Row> | null> {
  return new Source<Rows<Row> | null>(stream, name, null, (rows, told) => {
    const event = told as unknown as LiveEvent<Row>;
    return rows === null && event.kind !== "snapshot" ? rows : after(rows ?? new Map<string, Row>(), event);
  });
}

export const tunnels = view<Tunnel>("tunnels");
export const traffic = view<Rate>("traffic");
export const gateways = view<Gateway>("gateways");
const dns = view<DnsRow>("dns");

/** The rows by key; null until they are known. */
export interface Live<Row> {
  rows: Rows<Row> | null;
}

function useView<Row>({ subscribe, current }: Source<Rows<Row> | null>): Live<Row> {
  return { rows: useSyncExternalStore(subscribe, current) };
}

export const useTunnels = (): Live<Tunnel> => useView(tunnels);
export const useTraffic = (): Live<Rate> => useView(traffic);
export const useDns = (): Live<DnsRow> => useView(dns);
export const useGateways = (): Live<Gateway> => useView(gateways);
export const useLink = (): Link => useSyncExternalStore(stream.onLink, stream.link);

/** The open tunnels of each resource, gateway, device or person. */
export function useTunnelsBy(
  owner: "resource" | "gateway" | "device_id" | "user",
): ReadonlyMap<string, readonly Tunnel[]> {
  const { rows } = useTunnels();
  return useMemo(() => {
    const found = new Map<string, Tunnel[]>();
    for (const tunnel of rows?.values() ?? []) {
      const others = found.get(tunnel[owner]);
      if (others === undefined) found.set(tunnel[owner], [tunnel]);
      else others.push(tunnel);
    }
    return found;
  }, [rows, owner]);
}
