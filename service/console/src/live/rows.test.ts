import { expect, test } from "vitest";

import { areasOf } from "./areas";
import { after } from "./rows";

test("a live view's events make its rows", () => {
  let rows = after(new Map<string, number>(), { kind: "snapshot", rows: { a: 1, b: 2 } });
  rows = after(rows, { kind: "changed", key: "b", row: 3 });
  rows = after(rows, { kind: "changed", key: "c", row: 4 });
  rows = after(rows, { kind: "gone", key: "a" });
  expect([...rows]).toEqual([
    ["b", 3],
    ["c", 4],
  ]);
  expect([...after(rows, { kind: "snapshot", rows: {} })]).toEqual([]);
});

test("an event does not change earlier rows", () => {
  const before = after(new Map<string, number>(), { kind: "snapshot", rows: { a: 1 } });
  after(before, { kind: "gone", key: "a" });
  expect(before.get("a")).toBe(1);
});

test("a log line makes the areas of its object stale", () => {
  expect(areasOf({ object: "resource/wiki" })).toContain("resources");
  expect(areasOf({ object: "user/alice" })).toEqual(expect.arrayContaining(["audit", "users", "devices"]));
  // Its answer depends on each of them.
  for (const kind of ["user", "device", "group", "policy", "resource", "gateway"])
    expect(areasOf({ object: `${kind}/x` })).toContain("access");
  expect(areasOf({ object: "something/else" })).toEqual(["audit"]);
});
