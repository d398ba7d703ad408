/** A gateway's table entries as texts. Pure. */

import type { Schemas } from "../api/client";

export type Entry = Schemas["EntryOut"];
type Fields = Record<string, number | readonly number[]>;

// ::ffff:0:0/96 (RFC 4291 section 2.5.5.2), as which the tables hold IPv4, of fields that hold addresses.
const MAPPED = 0xffff * 2 ** 32;
const ADDRESS = /src|dst|address|local|peer/;

function shown(field: string, number: number): string {
  const low = number - MAPPED;
  if (!ADDRESS.test(field) || low < 0 || low >= 2 ** 32) return String(number);
  return [24, 16, 8, 0].map((shift) => (low >>> shift) & 0xff).join(".");
}

export function words(fields: Fields): string {
  return Object.entries(fields)
    .map(
      ([field, of]) =>
        `${field} ${typeof of === "number" ? shown(field, of) : of.map((one) => shown(field, one)).join("/")}`,
    )
    .join("  ");
}

/** The entries that differ from the desired ones. */
export function driftIn<Of extends Pick<Entry, "standing">>(entries: readonly Of[]): Of[] {
  return entries.filter(({ standing }) => standing !== "held");
}

/** Entries by table, in the order of the tables' names. */
export function byTable<Of extends { table: string }>(entries: readonly Of[]): [string, Of[]][] {
  const tables = new Map<string, Of[]>();
  for (const entry of entries) tables.set(entry.table, [...(tables.get(entry.table) ?? []), entry]);
  return [...tables].sort(([a], [b]) => a.localeCompare(b));
}
