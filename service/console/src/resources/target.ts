/** Permitted addresses as rows of a form, and as the API has them. Pure. */
import type { Schemas } from "../api/client";

export type Target = Schemas["Target"];
export type Protocol = NonNullable<Target["protocol"]>;

/** `ports` as they are typed: "443, 8000-8100". */
export interface TargetRow {
  prefix: string;
  protocol: Protocol;
  ports: string;
}

export const NO_TARGET: TargetRow = { prefix: "", protocol: "any", ports: "" };

/** The paths of the fields of the rows at `path`. */
export function placesOf(path: string, rows: readonly TargetRow[]): string[] {
  return rows.flatMap((_, at) => ["prefix", "protocol", "ports"].map((field) => `${path}.${at}.${field}`));
}

export function rowOf({ prefix, protocol = "any", ports = [] }: Target): TargetRow {
  return { prefix, protocol, ports: ports.join(", ") };
}

export const hasPorts = ({ protocol }: Pick<TargetRow, "protocol">): boolean =>
  protocol === "tcp" || protocol === "udp";

export function targetOf(row: TargetRow): Target {
  const typed = row.ports.split(/[\s,]+/).filter((port) => port !== "");
  return { prefix: row.prefix.trim(), protocol: row.protocol, ports: hasPorts(row) ? typed : [] };
}

/** A target in a line: "10.20.0.10 tcp 443". A single host has no prefix length. */
export function shown({ prefix, protocol = "any", ports = [] }: Target): string {
  const host = prefix.replace(/(?<=\.\d+)\/32$|(?<=:.*)\/128$/, "");
  return [
    host,
    ...(protocol === "any" ? [] : [protocol]),
    ...(ports.length > 0 ? [ports.join(", ")] : []),
  ].join(" ");
}
