import { api, page, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { pages, type Pages } from "../shared/pages";

export type Device = Schemas["DeviceOut"];

export const STATES = ["pending", "approved", "revoked"] as const;

type Asked = NonNullable<paths["/api/v1/devices"]["get"]["parameters"]["query"]>;
export type DeviceOrder = NonNullable<Asked["sort"]>;
export const ORDERS: readonly DeviceOrder[] = ["name", "-name", "user", "-user", "last_seen", "-last_seen"];

export interface DeviceFilter {
  q?: string;
  sort?: DeviceOrder;
  /** The login name. */
  user?: string;
  state?: Device["state"];
}

export const devicesQuery = (filter: DeviceFilter): Pages<Device> =>
  pages(["devices", "list", filter], async (part) =>
    page(await api.GET("/api/v1/devices", { params: { query: { ...filter, ...part } } })),
  );
