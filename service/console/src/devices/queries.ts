import { api, page, type Schemas } from "../api/client";
import { pages, type Pages } from "../shared/pages";

export type Device = Schemas["DeviceOut"];

export const devicesQuery = (filter: { q?: string }): Pages<Device> =>
  pages(["devices", "list", filter], async (part) =>
    page(await api.GET("/api/v1/devices", { params: { query: { ...filter, ...part } } })),
  );
