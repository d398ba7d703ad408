/** A short name of the browser in a User-Agent header, for the list of sessions. Pure. */

import { t } from "@lingui/core/macro";
// The first match counts: most headers name several browsers.
const BROWSERS: readonly [RegExp, string][] = [
  [/Edg\//, "Edge"],
  [/OPR\//, "Opera"],
  [/Firefox\//, "Firefox"],
  [/Chrom(e|ium)\//, "Chrome"],
  [/Safari\//, "Safari"],
];
const SYSTEMS: readonly [RegExp, string][] = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Windows/, "Windows"],
  [/Mac OS X/, "macOS"],
  [/CrOS/, "ChromeOS"],
  [/Linux/, "Linux"],
];

export function browserOf(userAgent: string | null): string {
  if (userAgent === null || userAgent === "") return t`A program`;
  const browser = nameIn(userAgent, BROWSERS);
  const system = nameIn(userAgent, SYSTEMS);
  if (browser === null) return userAgent.split(" ", 1)[0] ?? userAgent;
  return system === null ? browser : t`${browser} on ${system}`;
}

function nameIn(text: string, names: readonly [RegExp, string][]): string | null {
  return names.find(([pattern]) => pattern.test(text))?.[1] ?? null;
}
