import { expect, test } from "vitest";

import { nextCursor } from "./link";
import { byField, type Problem } from "./problem";

const PROBLEM: Problem = {
  type: "/docs/reasons/REQUEST_INVALID",
  title: "Request invalid",
  status: 422,
  detail: "…",
  reason: "REQUEST_INVALID",
  remedy: "…",
  errors: [],
};
const FIELDS = ["name", "targets", "targets.0.prefix", "a/b"];

test("a fault is shown at its field", () => {
  const errors = [
    { pointer: "/targets/0/prefix", detail: "Value error, is no prefix" },
    { pointer: "/name", detail: "too long" },
  ];
  expect(byField({ ...PROBLEM, errors }, FIELDS)).toEqual({
    fields: { "targets.0.prefix": "Is no prefix", name: "Too long" },
    rest: null,
  });
});

test("a fault below the form's fields is shown at the nearest field", () => {
  const errors = [
    { pointer: "/targets/7/ports/1", detail: "no port" },
    { pointer: "/targets", detail: "too many" },
  ];
  expect(byField({ ...PROBLEM, errors }, FIELDS).fields).toEqual({ targets: "No port; Too many" });
});

test("a fault that begins with a name keeps the name's case", () => {
  const errors = [{ pointer: "/name", detail: "gw-berlin knows no server at fd20::77" }];
  expect(byField({ ...PROBLEM, errors }, FIELDS).fields).toEqual({
    name: "gw-berlin knows no server at fd20::77",
  });
});

test("a fault without a field is left for the whole form", () => {
  const whole = { ...PROBLEM, errors: [{ pointer: "", detail: "weights: name all" }] };
  expect(byField(whole, FIELDS)).toEqual({ fields: {}, rest: whole });
  expect(byField(PROBLEM, FIELDS).rest).toBe(PROBLEM);
});

test("a pointer's escapes are undone", () => {
  expect(byField({ ...PROBLEM, errors: [{ pointer: "/a~1b", detail: "odd" }] }, FIELDS).fields).toEqual({
    "a/b": "Odd",
  });
});

test("the next page's cursor comes from the Link header", () => {
  expect(nextCursor('</api/v1/resources?limit=2&cursor=WyJhIl0>; rel="next"')).toBe("WyJhIl0");
  expect(nextCursor('</x?cursor=1>; rel="prev"')).toBeNull();
  expect(nextCursor(null)).toBeNull();
});
