/** The tunnels that a gateway lost when it went offline or was drained. Pure. */
import { plural } from "@lingui/core/macro";

import type { Tunnel } from "../live/live";

export interface Loss {
  /** The number of tunnels that moved to each other gateway. */
  moved: ReadonlyMap<string, number>;
  /** The number of tunnels that the gateway still has. */
  left: number;
}

export function lossOf(gateway: string, tunnels: readonly Pick<Tunnel, "gateway" | "moved_from">[]): Loss {
  const moved = new Map<string, number>();
  let left = 0;
  for (const tunnel of tunnels) {
    if (tunnel.gateway === gateway) left += 1;
    else if (tunnel.moved_from === gateway) moved.set(tunnel.gateway, (moved.get(tunnel.gateway) ?? 0) + 1);
  }
  return { moved, left };
}

/** "2 tunnels moved to gw-paris, 1 tunnel waits"; empty where there was none. */
export function lossWords({ moved, left }: Loss): string {
  const said = [...moved].map(([to, count]) =>
    plural(count, { one: `# tunnel moved to ${to}`, other: `# tunnels moved to ${to}` }),
  );
  if (left > 0) said.push(plural(left, { one: "# tunnel waits", other: "# tunnels wait" }));
  return said.join(", ");
}
