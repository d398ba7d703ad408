/** Numbers, times, assertions and roles in words, in one format for all pages. */
import { msg, plural, t } from "@lingui/core/macro";

import type { Schemas } from "../api/client";
import { language, locales, say, type Text } from "../locale/language";

/** A noun inside a sentence: English begins it with a small letter, German with a capital. */
export const inSentence = (noun: string): string => (language() === "en" ? noun.toLowerCase() : noun);

/** "a, b or c". */
export const either = (names: readonly string[]): string =>
  new Intl.ListFormat(locales(), { type: "disjunction" }).format(names);

/** "a, b and c". */
export const both = (names: readonly string[]): string => new Intl.ListFormat(locales()).format(names);

/** A name's parts, after which a line may break: "gw-", "berlin". */
export const partsOf = (text: string): string[] => text.match(/[^.@\s-]*[.@\s-]+|[^.@\s-]+$/g) ?? [];

/** "3 h ago". `at` and `now` in milliseconds. */
export function ago(at: number, now: number): string {
  const time = age(at, now);
  return t`${time} ago`;
}

/** The effect of an act on `count` open tunnels. */
export function closes(count: number): string {
  return count === 0
    ? t`No open tunnels will be closed`
    : t`Closes ${plural(count, { one: "# tunnel", other: "# tunnels" })}`;
}

/** "alice can reach git.corp.example". */
export function saidOf({ user, group, reaches, display_name: name }: Schemas["AssertionOut"]): string {
  if (user !== null) return reaches ? t`${user} can reach ${name}` : t`${user} cannot reach ${name}`;
  const of = group ?? "";
  return reaches ? t`The members of ${of} can reach ${name}` : t`No member of ${of} can reach ${name}`;
}

/** The separators of a number's parts in the page's language: "1,234.5", "1.234,5". */
export function separators(): { thousandSeparator: string; decimalSeparator: string } {
  const parts = new Intl.NumberFormat(locales()).formatToParts(1_234_567.5);
  const part = (type: string) => parts.find((one) => one.type === type)?.value ?? "";
  return { thousandSeparator: part("group"), decimalSeparator: part("decimal") };
}

const DAY_MS = 86_400_000;

const STEPS: [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
];

/** "3 h", "12 min", "8 s". `at` and `now` in milliseconds. */
export function age(at: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - at) / 1000));
  const step = STEPS.find(([length]) => seconds >= length);
  return step ? `${Math.floor(seconds / step[0])} ${step[1]}` : `${seconds} s`;
}

/** "7 h 53 min", "30 min", "90 s": as the client says it. */
export function span(seconds: number): string {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes >= 48 * 60) return `${Math.round(minutes / 1440)} d`;
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return [hours ? `${hours} h` : "", rest ? `${rest} min` : ""].filter(Boolean).join(" ");
}

const UNITS = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];

/** "820 bit/s", "1.2 Mbit/s", of bytes per second. */
export function rate(bytes: number): string {
  const power = bytes > 0 ? Math.min(UNITS.length - 1, Math.floor(Math.log10(8 * bytes) / 3)) : 0;
  const value = (8 * bytes) / 1000 ** power;
  return `${value.toLocaleString(locales(), { maximumSignificantDigits: value < 100 ? 2 : 3 })} ${UNITS[power]}`;
}

/** "3 Dec 2026", in local time and in the page's language. */
export const day = (at: string): string =>
  new Date(at).toLocaleDateString(locales(), { dateStyle: "medium" });

/** "Thu, 3 Dec 2026": a day such as 2026-12-03 in local time. Empty for any other text. */
export function dayInFull(date: string): string {
  const at = new Date(`${date}T00:00`);
  const parts = { weekday: "short", day: "numeric", month: "short", year: "numeric" } as const;
  return Number.isNaN(at.getTime()) ? "" : at.toLocaleDateString(locales(), parts);
}

/** "today", "yesterday", "12 days ago". `on` is a day in UTC, such as 2026-12-03; `now` in milliseconds. */
export function daysAgo(on: string, now: number): string {
  const days = Math.floor(now / DAY_MS) - Math.floor(Date.parse(on) / DAY_MS);
  return new Intl.RelativeTimeFormat(locales(), { numeric: "auto" }).format(-Math.max(0, days), "day");
}

/** "3 Dec 2026, 23:49". */
export const moment = (at: string): string =>
  new Date(at).toLocaleString(locales(), { dateStyle: "medium", timeStyle: "short" });

/** "23:49". */
export const timeOfDay = (at: string): string =>
  new Date(at).toLocaleTimeString(locales(), { timeStyle: "short" });

// The three CAs, and the controller's own certificates.
const CERTIFICATES: Readonly<Record<string, Text>> = {
  infrastructure: msg`Infrastructure`,
  gateway: msg`Gateways`,
  device: msg`Devices`,
  server: msg`Server`,
  client: msg`Client`,
  public: msg`Public name`,
};

export const sayCertificate = (name: string): string => say(CERTIFICATES[name] ?? name);

export const ROLES: readonly { value: Schemas["AdminOut"]["role"]; label: Text; about: Text }[] = [
  { value: "owner", label: msg({ context: "role", message: "Owner" }), about: msg`everything` },
  {
    value: "admin",
    label: msg({ context: "role", message: "Admin" }),
    about: msg`everything but administrators and API tokens`,
  },
  { value: "auditor", label: msg({ context: "role", message: "Auditor" }), about: msg`read-only access` },
];

/** A role of another release as it is. */
export const sayRole = (role: string): string =>
  say(ROLES.find(({ value }) => value === role)?.label ?? role);
