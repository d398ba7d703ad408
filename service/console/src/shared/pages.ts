/** A list that is read page by page. */
import type { InfiniteData, UseInfiniteQueryOptions } from "@tanstack/react-query";

import type { Page } from "../api/client";

export type Pages<Row> = UseInfiniteQueryOptions<
  Page<Row>,
  Error,
  InfiniteData<Page<Row>, string>,
  readonly unknown[],
  string
>;

/** The names of the controller's orders of a list; one with a `-` is descending. */
export type OrderOf<Path extends { get?: unknown }> = Path extends {
  get: { parameters: { query?: { sort?: infer Order } } };
}
  ? Extract<Order, string>
  : never;

/** Each order and its reverse. */
export function bothWays<Order extends string>(...orders: Exclude<Order, `-${string}`>[]): Order[] {
  return orders.flatMap((order) => [order, `-${order}`] as Order[]);
}

export const PAGE_ROWS = 100;

const AGAIN_MS = 10_000;
const LONG_AGAIN_MS = 60_000;

/** A list with a time or a state of which the audit log has no line. A long one, which is read page by page, seldom. */
export function watched<Row>(options: Pages<Row>): Pages<Row> {
  return {
    ...options,
    refetchInterval: ({ state: { data } }) => ((data?.pages.length ?? 1) > 1 ? LONG_AGAIN_MS : AGAIN_MS),
  };
}

/** `read` gets the number of rows and the cursor to ask for. */
export function pages<Row>(
  queryKey: readonly unknown[],
  read: (part: { limit: number; cursor?: string }) => Promise<Page<Row>>,
): Pages<Row> {
  return {
    queryKey,
    queryFn: ({ pageParam }) => read({ limit: PAGE_ROWS, ...(pageParam !== "" && { cursor: pageParam }) }),
    initialPageParam: "",
    getNextPageParam: ({ cursor }) => cursor,
  };
}
