import { api, body } from "../api/client";
import type { Assertion } from "../shared/Effect";
import { bothWays, pages, type Pages } from "../shared/pages";
import { saidOf } from "../shared/words";

export type AssertionOrder = "assertion" | "-assertion" | "state" | "-state";
export const ORDERS = bothWays<AssertionOrder>("assertion", "state");

const COMPARE = {
  assertion: (a: Assertion, b: Assertion) => saidOf(a).localeCompare(saidOf(b)),
  // Those that do not hold stand first.
  state: (a: Assertion, b: Assertion) => Number(a.holds) - Number(b.holds),
};

/** The controller gives all of them at once; what a person reads is searched and sorted here. */
export const assertionsQuery = ({
  q,
  sort = "assertion",
}: {
  q?: string;
  sort?: AssertionOrder;
}): Pages<Assertion> =>
  pages(["assertions", "list", q, sort], async () => {
    const typed = q?.toLowerCase() ?? "";
    const found = body(await api.GET("/api/v1/assertions")).filter((it) =>
      saidOf(it).toLowerCase().includes(typed),
    );
    const compare = COMPARE[sort.replace("-", "") as keyof typeof COMPARE];
    const rows = found.sort(sort.startsWith("-") ? (a, b) => compare(b, a) : compare);
    return { rows, cursor: null };
  });
