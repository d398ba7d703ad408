import { expect, test } from "vitest";

import type { DnsRow } from "../live/live";
import { chosen } from "./records";

const record = (name: string, state: string) =>
  [name, { name, state, zone: "corp", type: "A" } as DnsRow] as const;
const ROWS = new Map<string, DnsRow>([
  ["zone/corp", { name: "corp", origin: "corp.example", state: "refused" } as DnsRow],
  record("a.corp.example", "live"),
  record("wiki.corp.example", "refused"),
]);

test("zones and records are told apart, and what is not live stands first", () => {
  const { zones, records } = chosen(ROWS, {});
  expect(zones.map(({ origin }) => origin)).toEqual(["corp.example"]);
  expect(records.map(({ name }) => name)).toEqual(["wiki.corp.example", "a.corp.example"]);
});

test("records are found by a part of their name, and by their state", () => {
  expect(chosen(ROWS, { q: "WIKI" }).records).toHaveLength(1);
  expect(chosen(ROWS, { state: "live" }).records.map(({ name }) => name)).toEqual(["a.corp.example"]);
});
