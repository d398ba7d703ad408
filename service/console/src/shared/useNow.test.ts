import { expect, test, vi } from "vitest";

import { clock } from "./useNow";

test("the clock is right after a time without listeners, and the same for all parts of a page", () => {
  vi.useFakeTimers();
  const heard: string[] = [];
  const end = clock.subscribe(() => heard.push("list"));
  vi.advanceTimersByTime(1000);
  end();
  vi.advanceTimersByTime(60_000);
  expect(clock.current()).toBe(Date.now());
  const ends = ["line", "tooltip"].map((part) => clock.subscribe(() => heard.push(part)));
  vi.advanceTimersByTime(1500);
  expect(heard).toEqual(["list", "line", "tooltip"]);
  expect(Date.now() - clock.current()).toBe(500);
  for (const each of ends) each();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});
