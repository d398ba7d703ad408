/** A resource as its form has it, and back. Pure. */
import { t } from "@lingui/core/macro";
import { DNS_LABEL_MAX } from "../api/contract";
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
}

export const NEW: ResourceForm = {
  name: "",
  fqdn: "",
  targets: [NO_TARGET],
  gateways: [],
  users: [],
  owner: "",
  idle_seconds: 300,
  suite: "",
};

/** Checks that need no controller. */
export const VALIDATE = {
  gateways: (names: string[]) => (names.length === 0 ? t`Choose at least one` : null),
};

export function formOf(resource: Resource): ResourceForm {
  const { name, fqdn, display_name, gateways, users = [], owner, idle_seconds = 300, suite } = resource;
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
  };
}

/** `before`: its fields that the form lacks are kept. */
export function resourceOf(form: ResourceForm, before?: Resource): ResourceIn {
  const sameGateways =
    before !== undefined && [...form.gateways].sort().join() === [...before.gateways].sort().join();
  return {
    ...form,
    name: form.name.trim(),
    fqdn: form.fqdn === before?.display_name ? before.fqdn : form.fqdn.trim(),
    owner: form.owner.trim(),
    targets: form.targets.map(targetOf),
    suite: form.suite === "" ? null : (form.suite as NonNullable<ResourceIn["suite"]>),
    ...(before?.rekey && { rekey: before.rekey }),
    // Shares are of these gateways together.
    ...(sameGateways && before.weights && { weights: before.weights }),
  };
}

/** A short name made of a full name's first label. */
export function suggestedName(fqdn: string): string {
  const label = fqdn.toLowerCase().replace(/^\*\./, "all-").split(".", 1)[0] ?? "";
  return label
    .replaceAll("ß", "ss")
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .replaceAll(/[^a-z0-9-]/g, "-")
    .replaceAll(/^-+|-+$/g, "")
    .slice(0, DNS_LABEL_MAX);
}

/** The paths of the form's fields, beside which faults are shown. */
export function fieldsOf(form: ResourceForm): string[] {
  return [...Object.keys(form), ...placesOf("targets", form.targets)];
}
