import { expect, test } from "vitest";

import { formOf, inWords, newPolicy, policyOf, spans, WORKDAY, written } from "./form";
import type { Policy } from "./queries";

const POLICY: Policy = {
  name: "writers",
  enabled: true,
  group: "writers",
  user: null,
  resources: ["wiki"],
  conditions: {
    code_max_age_seconds: 90,
    hours: { zone: "Europe/Berlin", windows: [WORKDAY] },
    device_approved: true,
    sources: ["10.0.0.0/8"],
    posture: [{ fact: "os_id", one_of: ["debian"], at_least: null }],
  },
  created_at: "2026-01-01T00:00:00Z",
};

test("what a form was made of is what it makes", () => {
  expect(policyOf(formOf(POLICY, "UTC"), POLICY)).toEqual(written(POLICY));
});

test("a new policy asks for nothing, and hours count from the first window on", () => {
  const form = { ...newPolicy("Europe/Berlin"), name: " a ", who: "alice", whose: "user" as const };
  expect(policyOf(form)).toMatchObject({ name: "a", user: "alice", group: null });
  expect(policyOf(form).conditions).toMatchObject({ hours: null, code_max_age_seconds: null, sources: [] });
  expect(policyOf({ ...form, windows: [WORKDAY] }).conditions?.hours?.zone).toBe("Europe/Berlin");
});

test("conditions are said in words", () => {
  expect(inWords(POLICY.conditions)).toEqual([
    "code at most 90 s old",
    "approved device",
    "Mon–Fri 08:00–18:00 (Europe/Berlin)",
    "from 10.0.0.0/8",
    "os_id debian",
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
