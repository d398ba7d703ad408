import { afterAll, expect, test } from "vitest";

import { speak } from "../locale/language";
import { dayInFull, partsOf, sayCertificate, separators } from "./words";

afterAll(() => speak("en"));

test("a name has its parts, whatever separates them", () => {
  expect(partsOf("gw-berlin.corp.example")).toEqual(["gw-", "berlin.", "corp.", "example"]);
  expect(partsOf("alice@corp.example")).toEqual(["alice@", "corp.", "example"]);
  expect(partsOf("no open tunnel")).toEqual(["no ", "open ", "tunnel"]);
  expect(partsOf("wiki")).toEqual(["wiki"]);
});

test("a chosen day is said in the page's language", async () => {
  await speak("en-GB");
  expect(dayInFull("2026-12-03")).toBe("Thu, 3 Dec 2026");
  expect(dayInFull("yesterday")).toBe("");
  await speak("de-DE");
  expect(dayInFull("2026-12-03")).toBe("Do., 3. Dez. 2026");
  await speak("en");
});

test("numbers have the separators of the page's language", async () => {
  expect(separators()).toEqual({ thousandSeparator: ",", decimalSeparator: "." });
  await speak("de-DE");
  expect(separators()).toEqual({ thousandSeparator: ".", decimalSeparator: "," });
  expect([sayCertificate("device"), sayCertificate("of-another-release")]).toEqual([
    "Geräte",
    "of-another-release",
  ]);
});
