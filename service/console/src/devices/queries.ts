import { api, page, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { bothWays, pages, watched, type OrderOf, type Pages } from "../shared/pages";

export type Device = Schemas["DeviceOut"];

export const STATES = ["pending", "approved", "revoked"] as const;

export type DeviceOrder = OrderOf<paths["/api/v1/devices"]>;
export const ORDERS = bothWays<DeviceOrder>("name", "user", "state", "last_seen", "code");

export interface DeviceFilter {
  q?: string;
  sort?: DeviceOrder;
  /** The login name. */
  user?: string;
  state?: Device["state"];
}

export const devicesQuery = (filter: DeviceFilter): Pages<Device> =>
  watched(
    pages(["devices", "list", filter], async (part) =>
      page(await api.GET("/api/v1/devices", { params: { query: { ...filter, ...part } } })),
    ),
  );
