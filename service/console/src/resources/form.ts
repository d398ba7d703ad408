/** A resource as its form has it, and back. Pure. */
import { t } from "@lingui/core/macro";
import type { Managed } from "../dns/queries";
import { NEW_REKEY, REKEY_FIELDS, type RekeyForm } from "../shared/rekey";
import { hostOf } from "../shared/suggestion";
import type { Resource, ResourceIn } from "./queries";
import { NO_TARGET, placesOf, rowOf, targetOf, type TargetRow } from "./target";

export interface ResourceForm extends Record<string, unknown> {
  name: string;
  fqdn: string;
  targets: TargetRow[];
  gateways: string[];
  users: string[];
  owner: string;
  idle_seconds: number;
  suite: string;
  rekey: RekeyForm;
  /** Whether weights decide, instead of the order of the gateways. */
  weighted: boolean;
  /** Also those of gateways that were chosen before. */
  weights: Record<string, number>;
}

/** A gateway's weight until another is chosen. */
export const WEIGHT = 1;

export const NEW: ResourceForm = {
  name: "",
  fqdn: "",
  targets: [NO_TARGET],
  gateways: [],
  users: [],
  owner: "",
  idle_seconds: 300,
  suite: "",
  rekey: NEW_REKEY,
  weighted: false,
  weights: {},
};

/** The zones as people read them, those with the shortest names first. */
export const zoneNames = (zones: readonly Pick<Managed, "display_name">[]): string[] =>
  zones.map(({ display_name }) => display_name).toSorted((a, b) => a.length - b.length || a.localeCompare(b));

/** Whether a whole name is known to be in none of the zones. */
export function isOutside(fqdn: string, zones: readonly Pick<Managed, "name" | "display_name">[]): boolean {
  const name = fqdn.normalize("NFKC").trim().toLowerCase().replace(/\.$/, "");
  const spellings = zones.flatMap(({ name: encoded, display_name }) => [encoded, display_name]);
  return name.includes(".") && !spellings.some((zone) => name === zone || name.endsWith(`.${zone}`));
}

/** A URL's host name; of one part, with the zone appended if there is only one. Any other name as it is. */
export function completed(fqdn: string, zones: readonly Pick<Managed, "display_name">[]): string {
  const name = hostOf(fqdn);
  const [zone] = zones;
  return zones.length === 1 && zone && /^[^\s.*]+$/.test(name) ? `${name}.${zone.display_name}` : name;
}

/** Checks that need no controller. */
export const VALIDATE = {
  gateways: (names: string[]) => (names.length === 0 ? t`Choose at least one` : null),
};

export function formOf(resource: Resource): ResourceForm {
  const { name, fqdn, display_name, gateways, users = [], owner, idle_seconds = 300, suite } = resource;
  const { rekey, weights = {} } = resource;
  return {
    name,
    // A displayed name with the DNS name beside it cannot be saved as a name.
    fqdn: display_name.includes(" ") ? fqdn : display_name,
    targets: resource.targets.map(rowOf),
    gateways,
    users,
    owner,
    idle_seconds,
    suite: suite ?? "",
    rekey: { ...NEW_REKEY, ...rekey },
    weighted: Object.keys(weights).length > 0,
    weights,
  };
}

/** `before`: the resource that the form began with. */
export function resourceOf({ weighted, ...form }: ResourceForm, before?: Resource): ResourceIn {
  // One gateway needs no weight.
  const hasWeights = weighted && form.gateways.length > 1;
  return {
    ...form,
    name: form.name.trim(),
    fqdn: form.fqdn === before?.display_name ? before.fqdn : hostOf(form.fqdn).trim(),
    owner: form.owner.trim(),
    targets: form.targets.map(targetOf),
    suite: form.suite === "" ? null : (form.suite as NonNullable<ResourceIn["suite"]>),
    weights: hasWeights
      ? Object.fromEntries(form.gateways.map((name) => [name, form.weights[name] ?? WEIGHT]))
      : {},
  };
}

/** The paths of the form's fields, beside which faults are shown. */
export function fieldsOf(form: ResourceForm): string[] {
  return [...Object.keys(form), ...REKEY_FIELDS, ...placesOf("targets", form.targets)];
}
