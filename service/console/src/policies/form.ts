/** A policy as its form has it, and back. Pure. */
import { msg, t } from "@lingui/core/macro";

import { say, type Text } from "../locale/language";
import { day, daysAgo, either, span } from "../shared/words";
import type { Conditions, Policy, PolicyIn } from "./queries";

export type Day = NonNullable<Conditions["hours"]>["windows"][number]["days"][number];
export type Requirement = NonNullable<Conditions["posture"]>[number];

export const DAYS: readonly { value: Day; label: Text }[] = [
  { value: "mon", label: msg`Mon` },
  { value: "tue", label: msg`Tue` },
  { value: "wed", label: msg`Wed` },
  { value: "thu", label: msg`Thu` },
  { value: "fri", label: msg`Fri` },
  { value: "sat", label: msg`Sat` },
  { value: "sun", label: msg`Sun` },
];

export interface WindowForm {
  days: Day[];
  opens: string;
  closes: string;
}

/** A fact of the computer with its permitted `values`, or its least `version`. */
export interface RequirementForm {
  fact: string;
  how: "one_of" | "at_least";
  values: string[];
  version: string;
}

export interface PolicyForm extends Record<string, unknown> {
  name: string;
  enabled: boolean;
  /** Applies to a group or to one person; `who` is the name. */
  whose: "group" | "user";
  who: string;
  resources: string[];
  /** 0: none. */
  code_minutes: number;
  device_approved: boolean;
  sources: string[];
  zone: string;
  windows: WindowForm[];
  posture: RequirementForm[];
}

export const NO_REQUIREMENT: RequirementForm = { fact: "", how: "one_of", values: [], version: "" };

export const WORKDAY: WindowForm = {
  days: ["mon", "tue", "wed", "thu", "fri"],
  opens: "08:00",
  closes: "18:00",
};

export function newPolicy(zone: string): PolicyForm {
  return {
    name: "",
    enabled: true,
    whose: "group",
    who: "",
    resources: [],
    code_minutes: 0,
    device_approved: false,
    sources: [],
    zone,
    windows: [],
    posture: [],
  };
}

/** `zone`: the time zone of a policy without hours. */
export function formOf(policy: Policy, zone: string): PolicyForm {
  const { name, enabled = true, group, user, resources, conditions = {} } = policy;
  return {
    name,
    enabled,
    whose: user == null ? "group" : "user",
    who: group ?? user ?? "",
    resources,
    code_minutes: Math.round((conditions.code_max_age_seconds ?? 0) / 6) / 10,
    device_approved: conditions.device_approved ?? false,
    sources: conditions.sources ?? [],
    zone: conditions.hours?.zone ?? zone,
    windows: (conditions.hours?.windows ?? []).map((window) => ({ ...window })),
    posture: (conditions.posture ?? []).map(({ fact, one_of = [], at_least }) => ({
      fact,
      how: at_least == null ? "one_of" : "at_least",
      values: one_of,
      version: at_least ?? "",
    })),
  };
}

export function policyOf(form: PolicyForm): PolicyIn {
  return {
    name: form.name.trim(),
    enabled: form.enabled,
    group: form.whose === "group" ? form.who : null,
    user: form.whose === "user" ? form.who : null,
    resources: form.resources,
    conditions: {
      code_max_age_seconds: form.code_minutes > 0 ? Math.round(form.code_minutes * 60) : null,
      hours: form.windows.length > 0 ? { zone: form.zone, windows: form.windows } : null,
      device_approved: form.device_approved,
      sources: form.sources,
      posture: form.posture.map(({ fact, how, values, version }) => ({
        fact: fact.trim(),
        one_of: how === "one_of" ? values : [],
        at_least: how === "at_least" ? version.trim() : null,
      })),
    },
  };
}

/** The policy without the fields that the server adds. */
export function written(policy: Policy): PolicyIn {
  const asked: Partial<Policy> & PolicyIn = { ...policy };
  delete asked.created_at;
  delete asked.user_display_name;
  delete asked.usage;
  return asked;
}

/** "today", "3 days ago", "not since 28 Nov 2026". `now` in milliseconds. */
export function lastUse({ last_used_on: on, counted_from }: Policy["usage"], now: number): string {
  if (on !== null) return daysAgo(on, now);
  const from = day(counted_from);
  return t`not since ${from}`;
}

export const isWhole = (form: PolicyForm): boolean =>
  form.name.trim() !== "" && form.who !== "" && form.resources.length > 0;

/** Checks that need no controller. */
export const VALIDATE = {
  who: (who: string) => (who === "" ? t`Choose one` : null),
  resources: (names: string[]) => (names.length === 0 ? t`Choose at least one` : null),
  posture: {
    fact: (fact: string) => (fact === "" ? t`Choose one` : null),
    values: (values: string[], { posture }: PolicyForm, path: string) =>
      posture[Number(path.split(".")[1])]?.how === "one_of" && values.length === 0
        ? t`Enter at least one value; press Enter after each`
        : null,
  },
};

// The API's limit of this list (decision/conditions.py).
const POSTURE_MAX = 32;
const PLACES = { "": "fact", ".fact": "fact", ".one_of": "values", ".at_least": "version" };

/** The API's fields, where the form has them. */
export const FIELDS: Readonly<Record<string, string>> = {
  group: "who",
  user: "who",
  "conditions.code_max_age_seconds": "code_minutes",
  "conditions.sources": "sources",
  "conditions.hours.zone": "zone",
  "conditions.hours": "windows",
  "conditions.posture": "posture",
  ...Object.fromEntries(
    Array.from({ length: POSTURE_MAX }, (_, at) => at).flatMap((at) =>
      Object.entries(PLACES).map(([of, place]) => [
        `conditions.posture.${at}${of}`,
        `posture.${at}.${place}`,
      ]),
    ),
  ),
};

export const fieldsOf = (form: PolicyForm): string[] => [...Object.keys(form), ...Object.keys(FIELDS)];

/** "code at most 30 min old", "Mon–Fri 08:00–18:00 (Europe/Berlin)", …: a phrase for each condition. */
export function inWords(conditions: Conditions = {}): string[] {
  const { code_max_age_seconds: age, hours, device_approved, sources = [], posture = [] } = conditions;
  return [
    ...(age != null ? [t`code at most ${span(age)} old`] : []),
    ...(device_approved ? [t`approved device`] : []),
    ...(hours?.windows ?? []).map(
      ({ days, opens, closes }) => `${spans(days)} ${opens}–${closes} (${hours?.zone ?? ""})`,
    ),
    ...(sources.length > 0 ? [t`from ${sources.join(", ")}`] : []),
    ...posture.map(required),
  ];
}

export const required = ({ fact, one_of = [], at_least }: Requirement): string =>
  at_least == null ? `${fact} ${either(one_of)}` : t`${fact} ${at_least} or later`;

/** "Mon–Fri, Sun": three days or more in a row are a span. */
export function spans(days: readonly Day[]): string {
  const runs: string[][] = [];
  let last = -2;
  DAYS.forEach(({ value, label }, at) => {
    if (!days.includes(value)) return;
    if (at === last + 1) runs.at(-1)?.push(say(label));
    else runs.push([say(label)]);
    last = at;
  });
  return runs.map((run) => (run.length > 2 ? `${run[0]}–${run.at(-1)}` : run.join(", "))).join(", ");
}
