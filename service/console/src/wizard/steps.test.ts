import { expect, test } from "vitest";

import { nextOf, stateOf, stepsOf, STEPS, type Happened } from "./steps";

const NOTHING: Happened = {
  gateway: false,
  zone: false,
  resource: false,
  record: false,
  invited: false,
  allowed: false,
  opened: false,
};

test("the next step is the first that has not happened", () => {
  const happened = { ...NOTHING };
  for (const { what } of STEPS) {
    expect(stateOf(happened, false)).toBe("begun");
    expect(nextOf(happened)?.what).toBe(what);
    happened[what] = true;
  }
  expect(stateOf(happened, false)).toBe("finished");
  expect(nextOf(happened)).toBeUndefined();
  expect(nextOf({ ...NOTHING, invited: true, gateway: true })?.what).toBe("zone");
});

test("a step names the steps that it needs and that have not happened", () => {
  const missing = (happened: Happened) =>
    Object.fromEntries(stepsOf(happened).map((step) => [step.what, step.missing]));
  expect(missing(NOTHING)).toEqual({
    gateway: [],
    zone: [],
    resource: [1],
    record: [2, 3],
    invited: [],
    allowed: [3],
    opened: [1, 3, 5, 6],
  });
  expect(missing({ ...NOTHING, gateway: true, invited: true })["opened"]).toEqual([3, 6]);
  expect(stepsOf({ ...NOTHING, opened: true }).every((step) => step.missing.length === 0)).toBe(true);
});

test("an installation in use is finished, also without its gateway, its zone or its record", () => {
  expect(stateOf({ ...NOTHING, opened: true }, false)).toBe("finished");
  expect(stateOf({ ...NOTHING, record: null, opened: true }, false)).toBe("finished");
});

test("the state is unknown until every step is known", () => {
  expect(stateOf({ ...NOTHING, record: null }, false)).toBe("unknown");
});

test("each step of an opened page is done, and a controller without a zone needs neither that nor a record", () => {
  const opened = { ...NOTHING, opened: true };
  expect(stepsOf(opened).map(({ what }) => what)).toEqual([
    "gateway",
    "resource",
    "invited",
    "allowed",
    "opened",
  ]);
  expect(stepsOf(opened).every(({ isDone }) => isDone)).toBe(true);
  expect(stepsOf({ ...opened, zone: true, record: true })).toHaveLength(7);
  expect(stepsOf(NOTHING)).toHaveLength(7);
  expect(stepsOf(NOTHING).some(({ isDone }) => isDone)).toBe(false);
});

test("the steps do not come back when the log of an old installation has lost its first lines", () => {
  const used = { ...NOTHING, gateway: true, resource: true };
  expect(stateOf(used, true)).toBe("finished");
  expect(stateOf(used, false)).toBe("begun");
  expect(stateOf(used, null)).toBe("unknown");
  expect(stateOf(NOTHING, true)).toBe("begun");
});
