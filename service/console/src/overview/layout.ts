/**
 * The place of each node of the live map: devices, gateways, resources in three columns, joined by tunnels. Pure.
 *
 *   device ───────► gateway ───────► resource
 *          tunnels          tunnels
 */
import { plural, t } from "@lingui/core/macro";

import type { Gateway, Rate, Tunnel } from "../live/live";
import type { Rows } from "../live/rows";
import { lossOf, lossWords } from "./losses";

export type Column = "device" | "gateway" | "resource";

export interface Spot {
  id: string;
  column: Column;
  /** The address of its page. */
  href: string;
  title: string;
  about: string;
  state: "online" | "offline" | "draining" | "idle";
  y: number;
}

export interface Span {
  id: string;
  from: string;
  to: string;
  tunnels: number;
  /** Bytes per second, both ways. */
  rate: number;
  /** The time at which the oldest tunnel was opened. */
  since: string;
}

/** A resource, which may have no tunnel now. */
export interface Named {
  name: string;
  display_name: string;
}

export interface Layout {
  spots: Spot[];
  spans: Span[];
  height: number;
  /** Devices and resources that the map has no room for. */
  left: number;
}

const ROW_PX = 68;
const SHOWN_MAX = 24;
const NOTHING: Rows<Rate> = new Map();

export function layout(
  tunnels: readonly Tunnel[],
  gateways: readonly Gateway[],
  rates: Rows<Rate> = NOTHING,
  known: readonly Named[] = [],
  rowPx = ROW_PX,
): Layout {
  const newest = [...tunnels].sort((a, b) => b.opened_at.localeCompare(a.opened_at));
  const devices = firstOf(newest, ({ device_id }) => device_id);
  const resources = firstOf(newest, ({ resource }) => resource);
  const hasRoom = ({ device_id, resource }: Tunnel) =>
    devices.shown.has(device_id) && resources.shown.has(resource);
  const idle = known
    .filter(({ name }) => !resources.shown.has(name))
    .slice(0, Math.max(0, SHOWN_MAX - resources.shown.size));
  const drawn = newest.filter(hasRoom);
  const columns: Record<Column, Omit<Spot, "y" | "column">[]> = {
    device: byTitle(
      [...devices.shown.values()].map(({ device_id, user, user_display_name, device }) => ({
        id: `device/${device_id}`,
        href: `/people/of/${encodeURIComponent(user)}`,
        title: user_display_name ?? user,
        about: device,
        state: "online",
      })),
    ),
    gateway: byTitle(gateways.map((gateway) => gatewaySpot(gateway, tunnels))),
    // Those with tunnels stand above the idle ones.
    resource: [
      ...byTitle(
        [...resources.shown.values()].map(({ resource, display_name }) => ({
          id: `resource/${resource}`,
          href: `/resources/of/${encodeURIComponent(resource)}`,
          title: display_name,
          about: "",
          state: "online" as const,
        })),
      ),
      ...byTitle(
        idle.map(({ name, display_name }) => ({
          id: `resource/${name}`,
          href: `/resources/of/${encodeURIComponent(name)}`,
          title: display_name,
          about: t`no tunnel now`,
          state: "idle" as const,
        })),
      ),
    ],
  };
  const longest = Math.max(1, ...Object.values(columns).map((spots) => spots.length));
  const spots = Object.entries(columns).flatMap(([column, found]) =>
    found.map((spot, at) => ({
      ...spot,
      column: column as Column,
      y: (at + (longest - found.length) / 2) * rowPx,
    })),
  );
  return {
    spots,
    spans: spansOf(drawn, rates),
    height: longest * rowPx,
    left: devices.left + resources.left,
  };
}

function gatewaySpot(gateway: Gateway, all: readonly Tunnel[]): Omit<Spot, "y" | "column"> {
  const { name, state, reason, draining_since, tunnels } = gateway;
  const draining = draining_since !== null;
  const loss = lossWords(lossOf(name, all));
  const about =
    state === "offline"
      ? loss || reason
      : draining
        ? loss || t`draining`
        : plural(tunnels, { 0: "no open tunnel", one: "# open tunnel", other: "# open tunnels" });
  return {
    id: `gateway/${name}`,
    href: `/gateways/of/${encodeURIComponent(name)}`,
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

function spansOf(newest: readonly Tunnel[], rates: Rows<Rate>): Span[] {
  const spans = new Map<string, Span>();
  for (const { id: tunnel, device_id, gateway, resource, opened_at } of newest) {
    const { from_device, to_device } = rates.get(tunnel) ?? { from_device: 0, to_device: 0 };
    for (const [from, to] of [
      [`device/${device_id}`, `gateway/${gateway}`],
      [`gateway/${gateway}`, `resource/${resource}`],
    ] as const) {
      const id = `${from}>${to}`;
      const before = spans.get(id);
      const rate = (before?.rate ?? 0) + from_device + to_device;
      spans.set(id, { id, from, to, tunnels: (before?.tunnels ?? 0) + 1, rate, since: opened_at });
    }
  }
  return [...spans.values()];
}

function byTitle<Titled extends { title: string; id: string }>(spots: Titled[]): Titled[] {
  return spots.sort((a, b) => a.title.localeCompare(b.title) || a.id.localeCompare(b.id));
}
