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

export const PAGE_ROWS = 100;

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
