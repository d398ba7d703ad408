import { api, page, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { bothWays, pages, watched, type OrderOf, type Pages } from "../shared/pages";

export type Device = Schemas["DeviceOut"];

/** The controller's states, of which "pending" is here a device that waits for its approval, and "unneeded" the others. */
export const STATES = ["pending", "unneeded", "approved", "revoked"] as const;
export type DeviceState = (typeof STATES)[number];

export const stateOf = ({ state, approval_needed }: Device): DeviceState =>
  state === "pending" && !approval_needed ? "unneeded" : state;

export type DeviceOrder = OrderOf<paths["/api/v1/devices"]>;
export const ORDERS = bothWays<DeviceOrder>("name", "user", "state", "last_seen", "code");

export interface DeviceFilter {
  q?: string;
  sort?: DeviceOrder;
  /** The login name. */
  user?: string;
  state?: DeviceState;
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
