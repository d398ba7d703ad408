/** Zones and records out of the live view's rows. Pure. */
import type { DnsRow, Published, Zone } from "../live/live";
import type { Rows } from "../live/rows";

export const STATES = ["live", "pending", "refused", "foreign", "unreachable"] as const;
export const COLOURS: Record<Zone["state"], string> = {
  live: "culvert",
  pending: "yellow",
  refused: "red",
  foreign: "orange",
  unreachable: "red",
};

export function chosen(
  rows: Rows<DnsRow>,
  { q = "", state }: { q?: string; state?: string },
): { zones: Zone[]; records: Published[] } {
  const zones: Zone[] = [];
  const records: Published[] = [];
  for (const row of rows.values()) {
    if ("origin" in row) zones.push(row);
    else if (row.name.includes(q.toLowerCase()) && (state === undefined || row.state === state))
      records.push(row);
  }
  // What needs somebody stands first.
  const need = ({ state: of }: Published) => (of === "live" ? 1 : 0);
  records.sort((a, b) => need(a) - need(b) || a.name.localeCompare(b.name) || a.type.localeCompare(b.type));
  return { zones: zones.sort((a, b) => a.name.localeCompare(b.name)), records };
}
