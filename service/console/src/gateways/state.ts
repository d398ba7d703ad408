/** A gateway's state in a word and a colour. Pure. */
import type { Gateway } from "../live/live";

export function stateOf({ state, draining_since }: Pick<Gateway, "state" | "draining_since">): {
  word: string;
  colour: string;
} {
  if (state === "offline") return { word: "offline", colour: "red" };
  if (draining_since !== null) return { word: "draining", colour: "yellow" };
  return { word: "online", colour: "culvert" };
}

/** The number of times that entries were put right, and the last differences. */
export function driftOf({ drift }: Pick<Gateway, "drift">): string {
  const { repaired = 0, missing = 0, foreign = 0, changed = 0 } = drift;
  if (repaired === 0) return "all in place";
  const parts = [
    [missing, "missing"],
    [foreign, "not ours"],
    [changed, "changed"],
  ] as const;
  const last = parts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`);
  const often = repaired === 1 ? "once" : `${repaired} times`;
  return `put right ${often}${last.length > 0 ? `; last time ${last.join(", ")}` : ""}`;
}

/** The state of the gateway's KEK, and the number of SAs to be rekeyed after its change. */
export function keysOf({ keys }: Pick<Gateway, "keys">): string {
  switch (keys.state) {
    case "new":
      return "no bundle yet";
    case "waiting":
      return "the new bundle is not installed yet";
    case "rekeying":
      return keys.sas_left === null ? "rekeying tunnels" : `${keys.sas_left} SAs wait for a rekey`;
    case "settled":
      return "of the newest bundle";
  }
}

/** A line for each neighbour that the gateway does not find, or that does not answer. */
export function silentOf({ neighbours }: Pick<Gateway, "neighbours">): string[] {
  return neighbours
    .filter(({ mac, silent_since }) => mac === null || silent_since !== null)
    .map(({ side, address, mac, silent_since }) => {
      const name = side === "wan" ? "The next hop" : "The neighbour";
      const question = address.includes(":") ? "Neighbor Solicitation" : "ARP";
      if (silent_since === null) return `${name} ${address} has not been found yet`;
      const last = mac === null ? "" : `; packets go to its last MAC address ${mac}`;
      return `${name} ${address} does not answer ${question}${last}`;
    });
}
