import { expect, test } from "vitest";

import { computerKind } from "./computer";

const X11 = "Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0";

test.each([
  [X11, undefined, undefined, "linux"],
  [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/150.0.0.0 Safari/537.36",
    "Linux",
    false,
    "linux",
  ],
  ["Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36", "Windows", false, "other"],
  ["Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15", undefined, undefined, "other"],
  ["Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36", "Chrome OS", false, "other"],
  ["Mozilla/5.0 (Linux; Android 16; K) AppleWebKit/537.36 Mobile Safari/537.36", "Android", true, "phone"],
  [
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15",
    undefined,
    undefined,
    "phone",
  ],
] as const)("%s", (userAgent, platform, mobile, kind) => {
  expect(computerKind(userAgent, platform, mobile)).toBe(kind);
});
