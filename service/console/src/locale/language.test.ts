import { afterEach, expect, test } from "vitest";

import { ago, day, rate } from "../shared/words";
import { language, locales, speak } from "./language";

afterEach(() => speak("en"));

test.each([
  ["de", "de", ["de"]],
  ["de-AT", "de", ["de-AT"]],
  ["DE-ch", "de", ["DE-ch"]],
  ["de_DE", "de", ["de"]],
  ["en-US@posix", "en", ["en"]],
  ["den", "en", ["den"]],
] as const)("the tag %s speaks %s", async (tag, spoken, tags) => {
  await speak(tag);
  expect([language(), locales()]).toEqual([spoken, tags]);
  expect(() => day("2026-12-03T12:00:00Z")).not.toThrow();
});

test("times and numbers are German in German", async () => {
  await speak("de-DE");
  expect(ago(0, 10_800_000)).toBe("vor 3 h");
  expect(day("2026-12-03T12:00:00Z")).toBe("03.12.2026");
  expect(rate(187_500)).toBe("1,5 Mbit/s");
  await speak("en-GB");
  expect([ago(0, 10_800_000), rate(187_500)]).toEqual(["3 h ago", "1.5 Mbit/s"]);
});
