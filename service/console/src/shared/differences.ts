/** The differences between two changes of one row, made at the same time. Pure. */

import { msg, t } from "@lingui/core/macro";

import { say, type Text } from "../locale/language";

// As the forms call them; a field without a name of its own is called as in the API.
const FIELDS: Readonly<Record<string, Text>> = {
  conditions: msg`Conditions`,
  enabled: msg`In force`,
  fqdn: msg`Name that people open`,
  gateways: msg`Gateways`,
  group: msg`Group`,
  idle_seconds: msg`Idle time`,
  members: msg`Members`,
  name: msg`Name`,
  owner: msg`Owner`,
  rekey: msg`New keys after`,
  resources: msg`Resources`,
  suite: msg`Suite`,
  targets: msg`Permitted addresses`,
  user: msg`Person`,
  users: msg`People`,
  weights: msg`Weights of the gateways`,
};

export interface Difference {
  field: string;
  theirs: string;
  mine: string;
}

/** Compares the fields that both have; the form lacks fields that only the server writes. */
export function differences(mine: object, theirs: object): Difference[] {
  return Object.keys(mine)
    .filter((field) => field in theirs)
    .flatMap((field) => compared([field], valueAt(mine, field), valueAt(theirs, field)));
}

/** An object's differing parts, each with its path. */
function compared(path: string[], mine: unknown, theirs: unknown): Difference[] {
  if (JSON.stringify(mine) === JSON.stringify(theirs)) return [];
  if (isObject(mine) && isObject(theirs))
    return [...new Set([...Object.keys(mine), ...Object.keys(theirs)])].flatMap((part) =>
      compared([...path, part], valueAt(mine, part), valueAt(theirs, part)),
    );
  const [first = "", ...further] = path;
  const field = [say(FIELDS[first] ?? spaced(first)), ...further.map(spaced)].join(": ");
  return [{ field, theirs: words(theirs), mine: words(mine) }];
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const valueAt = (of: object, field: string): unknown => (of as Record<string, unknown>)[field];

const spaced = (field: string): string => field.replaceAll("_", " ");

function words(value: unknown): string {
  if (value === null || value === undefined || value === "") return "—";
  if (typeof value === "boolean") return value ? t`yes` : t`no`;
  if (Array.isArray(value)) return value.length === 0 ? "—" : value.map(words).join(", ");
  if (typeof value === "string") return value;
  if (typeof value === "object")
    return Object.entries(value)
      .map(([name, of]) => `${spaced(name)} ${words(of)}`)
      .join(", ");
  return JSON.stringify(value);
}
