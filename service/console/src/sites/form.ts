/** A site tunnel as its form has it, and back; its state in words. Pure. */
import { t } from "@lingui/core/macro";
import { placesOf, rowOf, targetOf, type TargetRow } from "../resources/target";
import { NEW_REKEY, REKEY_FIELDS, type RekeyForm } from "../shared/rekey";
import type { End, SiteTunnel, SiteTunnelChange, SiteTunnelIn } from "./queries";

export interface EndForm {
  gateway: string;
  resources: string[];
  targets: TargetRow[];
}

export interface SiteTunnelForm extends Record<string, unknown> {
  name: string;
  ends: EndForm[];
  owner: string;
  suite: string;
  /** Whether the tunnel has limits of its own, instead of the resources' lowest. */
  limited: boolean;
  rekey: RekeyForm;
}

const NO_END: EndForm = { gateway: "", resources: [], targets: [] };
export const NEW: SiteTunnelForm = {
  name: "",
  ends: [NO_END, NO_END],
  owner: "",
  suite: "",
  limited: false,
  rekey: NEW_REKEY,
};

/** Checks that need no controller. */
export const VALIDATE = {
  ends: {
    gateway: (gateway: string, { ends }: SiteTunnelForm) =>
      gateway === ""
        ? t`Choose one`
        : ends.every((end) => end.gateway === gateway)
          ? t`Choose two different gateways`
          : null,
    resources: (resources: string[], { ends }: SiteTunnelForm, path: string) =>
      resources.length === 0 && ends[Number(path.split(".")[1])]?.targets.length === 0
        ? t`Choose a resource, or add an address`
        : null,
  },
};

export function formOf({ name, ends, owner, suite, rekey, effective_rekey }: SiteTunnel): SiteTunnelForm {
  return {
    name,
    ends: ends.map(endFormOf),
    owner,
    suite: suite ?? "",
    limited: rekey !== null,
    rekey: { ...NEW_REKEY, ...(rekey ?? effective_rekey) },
  };
}

export function siteTunnelOf(form: SiteTunnelForm): SiteTunnelIn {
  return { name: form.name.trim(), ...changeOf(form) };
}

export function changeOf({ ends, owner, suite, limited, rekey }: SiteTunnelForm): SiteTunnelChange {
  return {
    ends: ends.map(({ gateway, resources, targets }) => ({
      gateway,
      resources,
      targets: targets.map(targetOf),
    })),
    owner: owner.trim(),
    suite: suite === "" ? null : (suite as NonNullable<SiteTunnelChange["suite"]>),
    rekey: limited ? rekey : null,
  };
}

/** The paths of the form's fields, beside which faults are shown. */
export function fieldsOf(form: SiteTunnelForm): string[] {
  const ends = form.ends.flatMap(({ targets }, at) => [
    ...["gateway", "resources", "targets"].map((field) => `ends.${at}.${field}`),
    ...placesOf(`ends.${at}.targets`, targets),
  ]);
  return ["name", "owner", "suite", ...REKEY_FIELDS, ...ends];
}

export function stateOf({ state, generation }: Pick<SiteTunnel, "state" | "generation">): {
  word: string;
  colour: string;
} {
  if (state === "down") return { word: t`down`, colour: "red" };
  if (state === "switching" && generation === 1) return { word: t`coming up`, colour: "yellow" };
  return { word: state === "up" ? t`up` : t`up, changing keys`, colour: "culvert" };
}

function endFormOf({ gateway, resources = [], targets = [] }: End): EndForm {
  return { gateway, resources, targets: targets.map(rowOf) };
}
