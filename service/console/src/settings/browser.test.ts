import { expect, test } from "vitest";

import { browserOf } from "./browser";

test.each([
  [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0 Safari/537.36",
    "Chrome on Linux",
  ],
  [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/141.0 Safari/537.36 Edg/141.0",
    "Edge on Windows",
  ],
  ["Mozilla/5.0 (Macintosh; Intel Mac OS X 14.6; rv:143.0) Gecko/20100101 Firefox/143.0", "Firefox on macOS"],
  [
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1 Version/18.6 Safari/604.1",
    "Safari on iOS",
  ],
  ["curl/8.5.0", "curl/8.5.0"],
  ["python-httpx/0.28 something", "python-httpx/0.28"],
  [null, "A program"],
])("%s is %s", (header, said) => {
  expect(browserOf(header)).toBe(said);
});
