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

/** How often a reconciliation had to put right what somebody else had changed. */
export function driftOf({ drift }: Pick<Gateway, "drift">): string {
  const { repaired = 0, missing = 0, foreign = 0, changed = 0 } = drift;
  if (repaired === 0) return "none";
  const parts = [
    [missing, "missing"],
    [foreign, "foreign"],
    [changed, "changed"],
  ] as const;
  const last = parts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`);
  return `repaired ${repaired === 1 ? "once" : `${repaired} times`}${last.length > 0 ? `; last: ${last.join(", ")}` : ""}`;
}

/** Whether the gateway has its newest key-encryption key, and the SAs that still need fresh keys after a change. */
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
