import { api, page, type Schemas } from "../api/client";
import { pages, type Pages } from "../shared/pages";

export type Line = Schemas["NamedLineOut"];

export interface Filter {
  actor?: string;
  /** The login name: the lines of this person's devices. */
  person?: string;
  action?: string;
  object?: string;
  outcome?: string;
  reason?: string;
}

type Asked = Omit<Filter, "outcome"> & { outcome?: Line["outcome"] };

/** The API's query: an address may have any text as the outcome. */
export function asked({ outcome, ...rest }: Filter): Asked {
  return outcome === "done" || outcome === "denied" ? { ...rest, outcome } : rest;
}

export const linesQuery = (filter: Filter): Pages<Line> =>
  pages(["audit", "list", filter], async (part) =>
    page(await api.GET("/api/v1/audit", { params: { query: { ...asked(filter), ...part } } })),
  );
