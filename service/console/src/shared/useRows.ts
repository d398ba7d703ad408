/** The loaded part of a long list, and the rows of it that are in sight. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";

import type { Pages } from "./pages";

const ROW_PX = 57;
const BEYOND = 12;

export function useRows<Row>(options: Pages<Row>) {
  const list = useInfiniteQuery(options);
  const rows = list.data?.pages.flatMap((page) => page.rows) ?? [];
  const body = useRef<HTMLTableSectionElement>(null);
  const [offset, setOffset] = useState(0);
  useLayoutEffect(
    () => setOffset((body.current?.getBoundingClientRect().top ?? 0) + window.scrollY),
    [list.isPending],
  );
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_PX,
    overscan: BEYOND,
    scrollMargin: offset,
  });
  const sight = virtual.getVirtualItems();
  const last = sight.at(-1)?.index ?? 0;
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  useEffect(() => {
    if (last >= rows.length - 1 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [last, rows.length, hasNextPage, isFetchingNextPage, fetchNextPage]);
  return {
    list,
    rows,
    body,
    sight,
    /** The height in pixels of the rows out of sight, above and below. */
    above: sight[0] ? sight[0].start - offset : 0,
    below: sight.length > 0 ? virtual.getTotalSize() - ((sight.at(-1)?.end ?? 0) - offset) : 0,
    measure: virtual.measureElement,
  };
}
