import { queryOptions } from "@tanstack/react-query";

import { api, page, type Page, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { bothWays, pages, watched, type OrderOf, type Pages } from "../shared/pages";

export type Device = Schemas["DeviceOut"];

/** The controller's states, of which "pending" is here a device that waits for its approval, and "unneeded" the others. */
export const STATES = ["pending", "unneeded", "approved", "revoked"] as const;
export type DeviceState = (typeof STATES)[number];

export const stateOf = ({ state, approval_needed }: Device): DeviceState =>
  state === "pending" && !approval_needed ? "unneeded" : state;

export type DeviceOrder = OrderOf<paths["/api/v1/devices"]>;
export const ORDERS = bothWays<DeviceOrder>("name", "user", "state", "last_seen", "last_denied", "code");

export interface DeviceFilter {
  q?: string;
  sort?: DeviceOrder;
  /** The login name. */
  user?: string;
  state?: DeviceState;
}

const WAITING_MS = 10_000;
const READ_MAX = 500;

/** The devices that wait for approval, as far as one answer has them. */
export const waitingQuery = (filter: Pick<DeviceFilter, "q" | "user">) =>
  queryOptions({
    queryKey: ["devices", "waiting", filter],
    queryFn: () => waitingFrom(filter, null),
    refetchInterval: WAITING_MS,
  });

/** All devices that wait for approval. They stay those of the first reading: an act on them must not reach later ones. */
export const allWaitingQuery = (filter: Pick<DeviceFilter, "q" | "user">) =>
  queryOptions({
    queryKey: ["all-waiting", filter],
    queryFn: async () => {
      const found: Device[] = [];
      for (let cursor: string | null | undefined; cursor !== null;) {
        const part: Page<Device> = await waitingFrom(filter, cursor ?? null);
        found.push(...part.rows);
        cursor = part.cursor;
      }
      return found;
    },
    staleTime: Infinity,
    gcTime: 0,
  });

async function waitingFrom(
  filter: Pick<DeviceFilter, "q" | "user">,
  cursor: string | null,
): Promise<Page<Device>> {
  const query = { ...filter, ...asked("pending"), limit: READ_MAX, ...(cursor !== null && { cursor }) };
  return page(await api.GET("/api/v1/devices", { params: { query } }));
}

export const devicesQuery = ({ state, ...filter }: DeviceFilter): Pages<Device> =>
  watched(
    pages(["devices", "list", state, filter], async (part) =>
      page(await api.GET("/api/v1/devices", { params: { query: { ...filter, ...asked(state), ...part } } })),
    ),
  );

function asked(state: DeviceState | undefined) {
  if (state === undefined) return {};
  if (state === "approved" || state === "revoked") return { state };
  return { state: "pending" as const, approval_needed: state === "pending" };
}
