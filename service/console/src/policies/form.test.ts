import { expect, test } from "vitest";

import { byField, type Problem } from "../api/problem";
import {
  FIELDS,
  fieldsOf,
  formOf,
  inWords,
  lastUse,
  lastUseOf,
  newPolicy,
  policyOf,
  spans,
  VALIDATE,
  WORKDAY,
  written,
} from "./form";
import type { Policy } from "./queries";

const POLICY: Policy = {
  name: "writers",
  enabled: true,
  group: "writers",
  user: null,
  user_display_name: null,
  resources: ["wiki"],
  conditions: {
    code_max_age_seconds: 90,
    hours: { zone: "Europe/Berlin", windows: [WORKDAY] },
    device_approved: true,
    sources: ["10.0.0.0/8"],
    posture: [
      { fact: "os_id", one_of: ["debian"], at_least: null },
      { fact: "os_version", one_of: [], at_least: "12" },
    ],
  },
  created_at: "2026-01-01T00:00:00Z",
  usage: { last_used_on: null, counted_from: "2026-01-01T12:00:00Z", is_unused: false },
};

test("an unchanged form makes the same policy", () => {
  expect(policyOf(formOf(POLICY, "UTC"))).toEqual(written(POLICY));
});

test("the last use is said in days", () => {
  const now = Date.parse("2026-11-28T00:30:00Z");
  const said = (last_used_on: string | null) =>
    lastUse({ ...POLICY, usage: { ...POLICY.usage, last_used_on } }, now);
  expect(["2026-11-28", "2026-11-27", "2026-08-30"].map(said)).toEqual(["today", "yesterday", "90 days ago"]);
  // Another computer's clock is ahead.
  expect(said("2026-11-29")).toBe("today");
  expect(said(null)).toBe("not since Jan 1, 2026");
  const usage = { ...POLICY.usage, counted_from: POLICY.created_at };
  expect(lastUse({ ...POLICY, usage }, now)).toBe("not used yet");
  expect(lastUseOf({ ...POLICY, usage }, now)).toBe("Not used yet");
  expect(lastUse({ ...POLICY, usage: { ...usage, is_unused: true } }, now)).toBe("not since Jan 1, 2026");
});

test("each requirement has fields for its faults", () => {
  const form = formOf(POLICY, "UTC");
  const errors = [
    { pointer: "/conditions/posture/1/at_least", detail: "no version" },
    { pointer: "/conditions/posture/0/one_of/0", detail: "too long" },
  ];
  const problem = { errors } as Problem;
  expect(byField(problem, fieldsOf(form), FIELDS).fields).toEqual({
    "posture.1.version": "No version",
    "posture.0.values": "Too long",
  });
  const { values } = VALIDATE.posture;
  expect(values([], form, "posture.0.values")).toBe("Enter at least one value; press Enter after each");
  expect(values([], form, "posture.1.values")).toBeNull();
});

test("a new policy has no conditions, and hours begin with the first window", () => {
  const form = { ...newPolicy("Europe/Berlin"), name: " a ", who: "alice", whose: "user" as const };
  expect(policyOf(form)).toMatchObject({ name: "a", user: "alice", group: null });
  expect(policyOf(form).conditions).toMatchObject({ hours: null, code_max_age_seconds: null, sources: [] });
  expect(policyOf({ ...form, windows: [WORKDAY] }).conditions?.hours?.zone).toBe("Europe/Berlin");
});

test("conditions are shown in words", () => {
  expect(inWords(POLICY.conditions)).toEqual([
    "code at most 90 s old",
    "approved device",
    "Mon–Fri 08:00–18:00 (Europe/Berlin)",
    "from 10.0.0.0/8",
    "distribution debian",
    "operating system version 12 or later",
  ]);
  expect(inWords({ code_max_age_seconds: 7200 })).toEqual(["code at most 2 h old"]);
  expect(inWords()).toEqual([]);
});

test.each([
  [["mon"], "Mon"],
  [["mon", "tue"], "Mon, Tue"],
  [["sun", "mon", "tue", "wed"], "Mon–Wed, Sun"],
  [["sat", "mon"], "Mon, Sat"],
] as const)("the days %j are %s", (days, said) => expect(spans(days)).toBe(said));
