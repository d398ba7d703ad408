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

/** The facts that Culvert's own client reports: they can be asked for before the first device is enrolled. */
export const OWN_FACTS: Readonly<Record<string, Text>> = {
  architecture: msg`processor`,
  client_version: msg`version of Culvert`,
  disk_encryption: msg`disk encryption`,
  kernel: msg`kernel version`,
  os: msg`operating system`,
  os_id: msg`distribution`,
  os_version: msg`operating system version`,
};

/** A fact in words; another program's as it is reported. */
export const sayFact = (fact: string): string => say(OWN_FACTS[fact] ?? fact);

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

/** "today", "3 days ago"; "not used yet" since it was made, or "not since 28 Nov 2026". `now` in milliseconds. */
export function lastUse({ usage, created_at }: Pick<Policy, "usage" | "created_at">, now: number): string {
  const { last_used_on: on, counted_from } = usage;
  if (on !== null) return daysAgo(on, now);
  const from = day(counted_from);
  return isNew({ usage, created_at }) ? t`not used yet` : t`not since ${from}`;
}

const AT_ONCE_MS = 1000;

/** Its uses are counted since it was made, and it is not offered for deletion yet. */
const isNew = ({ usage, created_at }: Pick<Policy, "usage" | "created_at">): boolean =>
  !usage.is_unused && Date.parse(usage.counted_from) - Date.parse(created_at) < AT_ONCE_MS;

/** The same as a sentence of the policy's page. */
export function lastUseOf(policy: Pick<Policy, "usage" | "created_at">, now: number): string {
  const from = day(policy.usage.counted_from);
  if (policy.usage.last_used_on === null) return isNew(policy) ? t`Not used yet` : t`Not used since ${from}`;
  const used = lastUse(policy, now);
  return t`Last used: ${used}`;
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

export function required({ fact: name, one_of = [], at_least }: Requirement): string {
  const fact = sayFact(name);
  return at_least == null ? `${fact} ${either(one_of)}` : t`${fact} ${at_least} or later`;
}

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
