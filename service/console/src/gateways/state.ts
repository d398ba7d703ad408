/** A gateway's state in a word and a colour. Pure. */
import { plural, t } from "@lingui/core/macro";

import type { Gateway } from "../live/live";
import { bothWays } from "../shared/pages";

export type GatewayOrder = `${"" | "-"}${"name" | "state" | "checked" | "tunnels"}`;
export const ORDERS = bothWays<GatewayOrder>("name", "state", "checked", "tunnels");

export function stateOf({ state, draining_since }: Pick<Gateway, "state" | "draining_since">): {
  word: string;
  colour: string;
} {
  if (state === "offline") return { word: t`offline`, colour: "red" };
  if (draining_since !== null) return { word: t`draining`, colour: "yellow" };
  return { word: t`online`, colour: "culvert" };
}

/** Whether the entries were in place at the last check, how often they were put right, and the last differences. */
export function driftOf({
  drift,
  state,
  reconciled_at,
}: Pick<Gateway, "drift" | "state" | "reconciled_at">): string {
  const { repaired = 0, missing = 0, foreign = 0, changed = 0 } = drift;
  if (reconciled_at === null) return t`Not checked yet.`;
  if (repaired === 0)
    return state === "offline" ? t`Every entry was in place at the last check.` : t`Every entry is in place.`;
  const often = plural(repaired, { one: "once", other: "# times" });
  const last = [
    missing > 0 && plural(missing, { one: "# was missing", other: "# were missing" }),
    foreign > 0 && plural(foreign, { one: "# was not Culvert’s", other: "# were not Culvert’s" }),
    changed > 0 && plural(changed, { one: "# had changed", other: "# had changed" }),
  ]
    .filter(Boolean)
    .join(", ");
  return last === "" ? t`Corrected ${often}.` : t`Corrected ${often}; the last time ${last}.`;
}

/** The state of the gateway's KEK, and the number of SAs to be rekeyed after its change. */
export function keysOf({ keys }: Pick<Gateway, "keys">): string {
  switch (keys.state) {
    case "new":
      return t`no bundle yet`;
    case "waiting":
      return t`the new bundle is not installed yet`;
    case "rekeying":
      return keys.sas_left === null
        ? t`rekeying tunnels`
        : plural(keys.sas_left, {
            one: "# key is still to be replaced",
            other: "# keys are still to be replaced",
          });
    case "settled":
      return t`of the newest bundle`;
  }
}

/** A line for each neighbour that the gateway does not find, or that does not answer. */
export function silentOf({ neighbours }: Pick<Gateway, "neighbours">): string[] {
  return neighbours
    .filter(({ mac, silent_since }) => mac === null || silent_since !== null)
    .map(({ side, address, mac, silent_since }) => {
      const name = side === "wan" ? t`The next hop` : t`The neighbour`;
      const question = address.includes(":") ? "Neighbor Solicitation" : "ARP";
      if (silent_since === null) return t`${name} ${address} has not been found yet`;
      return mac === null
        ? t`${name} ${address} does not answer ${question}`
        : t`${name} ${address} does not answer ${question}; packets go to its last MAC address ${mac}`;
    });
}
