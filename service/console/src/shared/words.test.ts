import { afterAll, expect, test } from "vitest";

import { speak } from "../locale/language";
import { sayCertificate, separators } from "./words";

afterAll(() => speak("en"));

test("numbers have the separators of the page's language", async () => {
  expect(separators()).toEqual({ thousandSeparator: ",", decimalSeparator: "." });
  await speak("de-DE");
  expect(separators()).toEqual({ thousandSeparator: ".", decimalSeparator: "," });
  expect([sayCertificate("device"), sayCertificate("of-another-release")]).toEqual([
    "Geräte",
    "of-another-release",
  ]);
});
