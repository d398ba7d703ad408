/** Zones and records of the live view's rows. Pure. */
import { i18n, type MessageDescriptor } from "@lingui/core";
import { msg, t } from "@lingui/core/macro";

import type { Text } from "../locale/language";
import type { DnsRow, Published, Zone } from "../live/live";
import type { Rows } from "../live/rows";
import { bothWays } from "../shared/pages";

export const isZone = (row: DnsRow): row is Zone => "origin" in row;

export const STATES = ["live", "pending", "refused", "foreign", "occluded", "unreachable"] as const;
/** The states' names. */
export const STATE_NAMES: Record<Zone["state"], Text> = {
  live: msg`live`,
  pending: msg`pending`,
  refused: msg`refused`,
  foreign: msg`foreign`,
  occluded: msg`occluded`,
  unreachable: msg`unreachable`,
};
/** The states’ meanings, of several records. */
export const STATE_MEANINGS: Record<Zone["state"], Text> = {
  live: msg`The name server answers with these records.`,
  pending: msg`These records are not written yet.`,
  refused: msg`The name server did not take these records.`,
  foreign: msg`Another program wrote records of these names. Culvert leaves them as they are.`,
  occluded: msg`A delegation or a DNAME above these names leads elsewhere: the name server never gives these records.`,
  unreachable: msg`The name server does not answer.`,
};
export const COLOURS: Record<Zone["state"], string> = {
  live: "culvert",
  pending: "yellow",
  refused: "red",
  foreign: "orange",
  occluded: "orange",
  unreachable: "red",
};

const TYPES: Readonly<Record<string, MessageDescriptor>> = {
  A: msg`IPv4 address (A)`,
  AAAA: msg`IPv6 address (AAAA)`,
  TXT: msg`Tunnel mark (TXT)`,
};

/** "IPv4 address (A) in the zone corp.example". Zones of the same origin, as of two views, have their short names beside it. */
export function recordWords(
  { type, zone: name }: Pick<Published, "type" | "zone">,
  zones: readonly Pick<Zone, "name" | "origin" | "display_name">[],
): string {
  const known = TYPES[type];
  const record = known ? i18n._(known) : type;
  if (name === "") return t`${record} in no zone`;
  const zone = zoneWords(name, zones);
  return t`${record} in the zone ${zone}`;
}

function zoneWords(name: string, zones: readonly Pick<Zone, "name" | "origin" | "display_name">[]): string {
  const found = zones.find((zone) => zone.name === name);
  if (found === undefined) return name;
  const isAlone = zones.every(({ name: other, origin }) => other === name || origin !== found.origin);
  return isAlone ? found.display_name : `${found.display_name} (${name})`;
}

export type RecordOrder = `${"" | "-"}${"name" | "state" | "changed"}`;
export const ORDERS = bothWays<RecordOrder>("name", "state", "changed");

const BY = {
  name: (a: Published, b: Published) => a.name.localeCompare(b.name),
  state: (a: Published, b: Published) => STATES.indexOf(b.state) - STATES.indexOf(a.state),
  changed: (a: Published, b: Published) => Date.parse(a.updated_at) - Date.parse(b.updated_at),
};

export function chosen(
  rows: Rows<DnsRow>,
  { q = "", state, sort }: { q?: string; state?: string; sort?: RecordOrder },
): { zones: Zone[]; records: Published[] } {
  const zones: Zone[] = [];
  const records: Published[] = [];
  const typed = q.normalize("NFKC").trim().toLowerCase().replace(/\.$/, "");
  const hasName = (row: Published) => row.name.includes(typed) || row.display_name.includes(typed);
  for (const row of rows.values()) {
    if (isZone(row)) zones.push(row);
    else if (hasName(row) && (state === undefined || row.state === state)) records.push(row);
  }
  // Records that are not live come first.
  const need = ({ state: of }: Published) => (of === "live" ? 1 : 0);
  records.sort((a, b) => need(a) - need(b) || a.name.localeCompare(b.name) || a.type.localeCompare(b.type));
  if (sort !== undefined) {
    const compare = BY[sort.replace("-", "") as keyof typeof BY];
    records.sort(sort.startsWith("-") ? (a, b) => compare(b, a) : compare);
  }
  return { zones: zones.sort((a, b) => a.name.localeCompare(b.name)), records };
}

const MARK = '"ipsec-tunneling:yes"';

/** A value's state: correct, not published yet, to be removed, or another program's. */
export type Standing = "same" | "missing" | "surplus" | "foreign" | "unknown";

/** Compares the desired and the observed values of a record that is not live. */
export function difference({
  type,
  state,
  wanted,
  found,
}: Pick<Published, "type" | "state" | "wanted" | "found">): { value: string; standing: Standing }[] {
  // Another zone answers for an occluded name, whatever this one holds.
  if (wanted === null || state === "occluded") return [];
  const standing = (value: string): Standing => {
    if (found === null) return "unknown";
    if (!found.includes(value)) return "missing";
    // dns-updater changes no foreign name, and no text but its own mark.
    const isOthers = state === "foreign" || (type === "TXT" && value !== MARK);
    if (isOthers) return "foreign";
    return wanted.includes(value) ? "same" : "surplus";
  };
  return [...new Set([...wanted, ...(found ?? [])])]
    .sort()
    .map((value) => ({ value, standing: standing(value) }));
}
