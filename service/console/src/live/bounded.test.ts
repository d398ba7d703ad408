import { expect, test, vi } from "vitest";

import { bounded } from "./bounded";

test("the first value passes at once, and those of a burst together", () => {
  vi.useFakeTimers();
  const passed: string[][] = [];
  const tell = bounded<string>(1000, (values) => passed.push([...values]));
  tell(["a"]);
  expect(passed).toEqual([["a"]]);
  tell(["b"]);
  tell(["b", "c"]);
  vi.advanceTimersByTime(999);
  expect(passed).toEqual([["a"]]);
  vi.advanceTimersByTime(1);
  expect(passed).toEqual([["a"], ["b", "c"]]);
  vi.advanceTimersByTime(5000);
  tell([]);
  tell(["d"]);
  expect(passed.slice(2)).toEqual([["d"]]);
  vi.useRealTimers();
});
