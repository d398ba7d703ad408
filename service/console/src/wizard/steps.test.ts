import { expect, test } from "vitest";

import { nextOf, stateOf, STEPS, type Happened } from "./steps";

const NOTHING: Happened = { gateway: false, resource: false, record: false, invited: false, opened: false };

test("the next step is the first that has not happened", () => {
  const happened = { ...NOTHING };
  for (const { what } of STEPS) {
    expect(stateOf(happened)).toBe("begun");
    expect(nextOf(happened)?.what).toBe(what);
    happened[what] = true;
  }
  expect(stateOf(happened)).toBe("finished");
  expect(nextOf(happened)).toBeUndefined();
  expect(nextOf({ ...NOTHING, invited: true, gateway: true })?.what).toBe("resource");
});

test("an installation in use is finished, also without its gateway or its record", () => {
  expect(stateOf({ ...NOTHING, opened: true })).toBe("finished");
  expect(stateOf({ ...NOTHING, record: null, opened: true })).toBe("finished");
});

test("the state is unknown until every step is known", () => {
  expect(stateOf({ ...NOTHING, record: null })).toBe("unknown");
});
