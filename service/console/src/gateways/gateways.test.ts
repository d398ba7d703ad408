import { expect, test } from "vitest";

import { byTable, words } from "./entries";
import { driftOf, stateOf } from "./state";

test("a gateway that is offline is so whether it drains or not", () => {
  const since = "2026-01-31T09:00:00Z";
  expect(stateOf({ state: "offline", draining_since: since }).word).toBe("offline");
  expect(stateOf({ state: "online", draining_since: since }).word).toBe("draining");
  expect(stateOf({ state: "online", draining_since: null }).word).toBe("online");
});

test("drift says how often, and what it was the last time", () => {
  expect(driftOf({ drift: {} })).toBe("none");
  expect(driftOf({ drift: { repaired: 1, foreign: 2 } })).toBe("put right once; last: 2 foreign");
  expect(driftOf({ drift: { repaired: 3, missing: 1, changed: 1 } })).toBe(
    "put right 3 times; last: 1 missing, 1 changed",
  );
});

test("entries stand by table, and say their fields", () => {
  const entry = (table: string) => ({
    table,
    priority: 0,
    match: { spi: 7, dst: [8, 24] as [number, number] },
    action: "a",
    params: {},
  });
  expect(byTable([entry("b"), entry("a"), entry("b")]).map(([table, rows]) => [table, rows.length])).toEqual([
    ["a", 1],
    ["b", 2],
  ]);
  expect(words(entry("a").match)).toBe("spi 7  dst 8/24");
  expect(words({ dst: 0xffff_0a14_000a, spi: 0xffff_0a14_000a })).toBe("dst 10.20.0.10  spi 281470850826250");
});
