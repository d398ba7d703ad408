import { api, page, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { pages, type Pages } from "../shared/pages";

export type Device = Schemas["DeviceOut"];

type Asked = NonNullable<paths["/api/v1/devices"]["get"]["parameters"]["query"]>;
export type DeviceOrder = NonNullable<Asked["sort"]>;
export const ORDERS: readonly DeviceOrder[] = ["name", "-name", "user", "-user", "last_seen", "-last_seen"];

export const devicesQuery = (filter: { q?: string; sort?: DeviceOrder }): Pages<Device> =>
  pages(["devices", "list", filter], async (part) =>
    page(await api.GET("/api/v1/devices", { params: { query: { ...filter, ...part } } })),
  );
