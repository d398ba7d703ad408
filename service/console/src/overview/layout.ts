/**
 * Where each node of the live map stands: devices, gateways, resources in three columns, joined by tunnels. Pure.
 *
 *   device ───────► gateway ───────► resource
 *          tunnels          tunnels
 */
import type { Gateway, Tunnel } from "../live/live";

export type Column = "device" | "gateway" | "resource";

export interface Spot {
  id: string;
  column: Column;
  title: string;
  about: string;
  state: "online" | "offline" | "draining";
  y: number;
}

export interface Span {
  id: string;
  from: string;
  to: string;
  tunnels: number;
}

export interface Layout {
  spots: Spot[];
  spans: Span[];
  height: number;
  /** Devices and resources that the map has no room for. */
  left: number;
}

export const ROW_PX = 68;
const SHOWN_MAX = 24;

export function layout(tunnels: readonly Tunnel[], gateways: readonly Gateway[]): Layout {
  const newest = [...tunnels].sort((a, b) => b.opened_at.localeCompare(a.opened_at));
  const devices = firstOf(newest, ({ device_id }) => device_id);
  const resources = firstOf(newest, ({ resource }) => resource);
  const hasRoom = ({ device_id, resource }: Tunnel) =>
    devices.shown.has(device_id) && resources.shown.has(resource);
  const drawn = newest.filter(hasRoom);
  const columns: Record<Column, Omit<Spot, "y" | "column">[]> = {
    device: byTitle(
      [...devices.shown.values()].map(({ device_id, user, device }) => ({
        id: `device/${device_id}`,
        title: user,
        about: device,
        state: "online",
      })),
    ),
    gateway: byTitle(gateways.map(gatewaySpot)),
    resource: byTitle(
      [...resources.shown.values()].map(({ resource, fqdn }) => ({
        id: `resource/${resource}`,
        title: fqdn,
        about: "",
        state: "online",
      })),
    ),
  };
  const longest = Math.max(1, ...Object.values(columns).map((spots) => spots.length));
  const spots = Object.entries(columns).flatMap(([column, found]) =>
    found.map((spot, at) => ({
      ...spot,
      column: column as Column,
      y: (at + (longest - found.length) / 2) * ROW_PX,
    })),
  );
  return { spots, spans: spansOf(drawn), height: longest * ROW_PX, left: devices.left + resources.left };
}

function gatewaySpot({ name, state, reason, draining_since, tunnels }: Gateway): Omit<Spot, "y" | "column"> {
  const draining = draining_since !== null;
  const about = state === "offline" ? reason : draining ? "draining" : `${tunnels} open`;
  return {
    id: `gateway/${name}`,
    title: name,
    about,
    state: state === "offline" ? state : draining ? "draining" : state,
  };
}

function firstOf(tunnels: readonly Tunnel[], keyOf: (tunnel: Tunnel) => string) {
  const all = new Map<string, Tunnel>();
  for (const tunnel of tunnels) if (!all.has(keyOf(tunnel))) all.set(keyOf(tunnel), tunnel);
  return { shown: new Map([...all].slice(0, SHOWN_MAX)), left: Math.max(0, all.size - SHOWN_MAX) };
}

function spansOf(tunnels: readonly Tunnel[]): Span[] {
  const spans = new Map<string, Span>();
  for (const { device_id, gateway, resource } of tunnels) {
    for (const [from, to] of [
      [`device/${device_id}`, `gateway/${gateway}`],
      [`gateway/${gateway}`, `resource/${resource}`],
    ] as const) {
      const id = `${from}>${to}`;
      spans.set(id, { id, from, to, tunnels: (spans.get(id)?.tunnels ?? 0) + 1 });
    }
  }
  return [...spans.values()];
}

function byTitle<Titled extends { title: string; id: string }>(spots: Titled[]): Titled[] {
  return spots.sort((a, b) => a.title.localeCompare(b.title) || a.id.localeCompare(b.id));
}
