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

test("rows that were shown are not changed under who shows them", () => {
  const before = after(new Map<string, number>(), { kind: "snapshot", rows: { a: 1 } });
  after(before, { kind: "gone", key: "a" });
  expect(before.get("a")).toBe(1);
});

test("a line of the log makes stale what shows its object", () => {
  expect(areasOf({ object: "resource/wiki" })).toContain("resources");
  expect(areasOf({ object: "user/alice" })).toEqual(expect.arrayContaining(["audit", "users", "devices"]));
  expect(areasOf({ object: "something/else" })).toEqual(["audit"]);
});
