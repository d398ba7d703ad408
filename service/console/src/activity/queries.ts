import { api, page, type Schemas } from "../api/client";
import { pages, type Pages } from "../shared/pages";

export type Line = Schemas["NamedLineOut"];

export interface Filter {
  /** A part of a name. */
  q?: string;
  actor?: string;
  /** The login name: the lines of this person's devices. */
  person?: string;
  action?: string;
  object?: string;
  outcome?: string;
  reason?: string;
  sort?: "at" | "-at";
  /** Days in local time, as 2026-11-27; the last is included. */
  from?: string;
  to?: string;
}

type Asked = Omit<Filter, "outcome" | "from" | "to"> & {
  outcome?: Line["outcome"];
  since?: string;
  until?: string;
};

/** The API's query: an address may have any text as the outcome and as a day. */
export function asked({ outcome, from, to, ...rest }: Filter): Asked {
  const [since, until] = [midnight(from, 0), midnight(to, 1)];
  return {
    ...rest,
    ...((outcome === "done" || outcome === "denied") && { outcome }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  };
}

function midnight(day: string | undefined, later: number): string | undefined {
  const at = new Date(`${day}T00:00`);
  at.setDate(at.getDate() + later);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

/** A search is costly for the controller: it is not repeated with each line that is written. */
export const linesQuery = (filter: Filter): Pages<Line> =>
  pages([filter.q === undefined ? "audit" : "search", "list", filter], async (part) =>
    page(await api.GET("/api/v1/audit", { params: { query: { ...asked(filter), ...part } } })),
  );
