import { expect, test } from "vitest";

import type { DnsRow } from "../live/live";
import { encoded } from "../shared/encoded";
import { chosen, difference, recordWords, type RecordOrder } from "./records";

const record = (name: string, state: string) =>
  [name, { name, display_name: name, state, zone: "corp", type: "A" } as DnsRow] as const;
const ROWS = new Map<string, DnsRow>([
  ["zone/corp", { name: "corp", origin: "corp.example", state: "refused" } as DnsRow],
  record("a.corp.example", "live"),
  record("wiki.corp.example", "refused"),
]);

test("a record is said with its kind and its zone", () => {
  const zone = (name: string, origin: string) => ({ name, origin, display_name: origin });
  const zones = [zone("corp", "corp.example"), zone("in", "lab.example"), zone("out", "lab.example")];
  expect(recordWords({ type: "A", zone: "corp" }, zones)).toBe("IPv4 address (A) in the zone corp.example");
  expect(recordWords({ type: "TXT", zone: "out" }, zones)).toBe(
    "Tunnel mark (TXT) in the zone lab.example (out)",
  );
  expect(recordWords({ type: "AAAA", zone: "" }, zones)).toBe("IPv6 address (AAAA) in no zone");
  expect(recordWords({ type: "SRV", zone: "gone" }, zones)).toBe("SRV in the zone gone");
});

test("zones and records are separate, and records that are not live come first", () => {
  const { zones, records } = chosen(ROWS, {});
  expect(zones.map(({ origin }) => origin)).toEqual(["corp.example"]);
  expect(records.map(({ name }) => name)).toEqual(["wiki.corp.example", "a.corp.example"]);
});

test("records are sorted as asked, and equal ones by their name", () => {
  const at = (name: string, state: string, updated_at: string) =>
    [name, { ...record(name, state)[1], updated_at } as DnsRow] as const;
  const rows = new Map([
    at("c.corp.example", "live", "2026-01-01T00:00:00.5Z"),
    at("a.corp.example", "refused", "2026-01-01T00:00:00Z"),
    at("b.corp.example", "live", "2026-01-01T00:00:01Z"),
  ]);
  const initials = (sort: RecordOrder) =>
    chosen(rows, { sort })
      .records.map(({ name }) => name[0])
      .join("");
  expect(initials("name")).toBe("abc");
  expect(initials("-name")).toBe("cba");
  expect(initials("changed")).toBe("acb");
  expect(initials("-changed")).toBe("bca");
  expect(initials("state")).toBe("abc");
  expect(initials("-state")).toBe("bca");
});

test("records are found by a part of their name, and by their state", () => {
  expect(chosen(ROWS, { q: "WIKI" }).records).toHaveLength(1);
  expect(chosen(ROWS, { state: "live" }).records.map(({ name }) => name)).toEqual(["a.corp.example"]);
});

test("a record is found in each spelling of its name", () => {
  const [name, display_name] = ["xn--bcher-kva.corp.example", "bücher.corp.example"];
  const rows = new Map([
    ...ROWS,
    [name, { name, display_name, state: "live", zone: "corp", type: "A" } as DnsRow],
  ]);
  for (const q of ["büch", "BÜCHER.Corp.Example.", "bu\u0308cher", "xn--bcher"])
    expect(chosen(rows, { q }).records.map((row) => row.name)).toEqual([name]);
});

test("the name in the DNS is shown beside a different display name, once", () => {
  const name = "xn--bcher-kva.corp.example";
  expect(encoded(name, "bücher.corp.example")).toBe(name);
  expect(encoded("wiki.corp.example", "wiki.corp.example")).toBeNull();
  expect(encoded(name, `аррӏе.corp.example (${name})`)).toBeNull();
});

test("wanted and found values are compared one by one", () => {
  const beside = (type: string, state: "pending" | "foreign", wanted: string[], found: string[] | null) =>
    difference({ type, state, wanted, found }).map(({ value, standing }) => `${value} ${standing}`);
  expect(beside("A", "pending", ["10.0.0.2", "10.0.0.3"], ["10.0.0.1", "10.0.0.3"])).toEqual([
    "10.0.0.1 surplus",
    "10.0.0.2 missing",
    "10.0.0.3 same",
  ]);
  expect(beside("A", "foreign", ["10.0.0.2"], ["10.0.0.1"])).toEqual([
    "10.0.0.1 foreign",
    "10.0.0.2 missing",
  ]);
  expect(beside("TXT", "pending", ['"ipsec-tunneling:yes"'], ['"v=spf1"'])).toEqual([
    '"ipsec-tunneling:yes" missing',
    '"v=spf1" foreign',
  ]);
  expect(beside("A", "pending", ["10.0.0.2"], null)).toEqual(["10.0.0.2 unknown"]);
  expect(difference({ type: "A", state: "occluded", wanted: ["10.0.0.2"], found: [] })).toEqual([]);
  expect(difference({ type: "A", state: "live", wanted: null, found: null })).toEqual([]);
});
