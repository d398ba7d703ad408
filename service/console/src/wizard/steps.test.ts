import { expect, test } from "vitest";

import { nextOf, stateOf, STEPS, type Happened } from "./steps";

const NOTHING: Happened = { gateway: false, resource: false, record: false, invited: false, opened: false };

test("each step follows the one before, whatever has happened out of turn", () => {
  const happened = { ...NOTHING };
  for (const { what } of STEPS) {
    expect(stateOf(happened)).toBe("under way");
    expect(nextOf(happened)?.what).toBe(what);
    happened[what] = true;
  }
  expect(stateOf(happened)).toBe("finished");
  expect(nextOf(happened)).toBeUndefined();
  expect(nextOf({ ...NOTHING, invited: true, gateway: true })?.what).toBe("resource");
});

test("nothing is said before all is known", () => {
  expect(stateOf({ ...NOTHING, record: null })).toBe("unknown");
});
