/** A page with all rows of a kind: its title, a search, filters, and the rows. */
import { t } from "@lingui/core/macro";
import { Group, Stack } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { EmptyList, NoMatch } from "./EmptyList";
import { PageHead } from "./PageHead";
import { RowList, type RowListProps } from "./RowList";
import { inSentence } from "./words";
import { SearchField } from "./SearchField";

interface Search {
  q: string | undefined;
  onSearch: (q: string) => void;
  /** The texts of a row that are searched: "in its name or members". */
  places: string;
  /** Whether another filter hides rows too. */
  isFiltered?: boolean;
  /** Removes all filters; without it, the search alone. */
  onShowAll?: () => void;
}

export function ListPage<Row>({
  title,
  about,
  add,
  before,
  search,
  after,
  empty,
  ...list
}: {
  title: string;
  about: string;
  /** The button for a new row. */
  add?: ReactNode;
  /** A switch to another page, before the search. */
  before?: ReactNode;
  search?: Search;
  /** Filters, after the search. */
  after?: ReactNode;
  /** The page of a controller without such rows. */
  empty: { icon: ReactNode; title: string; children: ReactNode };
} & Omit<RowListProps<Row>, "label" | "empty">) {
  const kind = inSentence(title);
  const first = useInfiniteQuery(list.options).data?.pages[0];
  const isFiltered = search !== undefined && (search.q !== undefined || search.isFiltered === true);
  return (
    <>
      <PageHead title={title} about={about}>
        {/* An empty list has the button in its card. */}
        {(isFiltered || first?.rows.length !== 0) && add}
      </PageHead>
      <Stack gap="md">
        {(before ?? search ?? after) !== undefined && (
          <Group>
            {before}
            {search && (
              <SearchField label={t`Search ${kind}`} value={search.q ?? ""} onSearch={search.onSearch} />
            )}
            {after}
          </Group>
        )}
        <RowList
          label={title}
          {...list}
          empty={
            isFiltered ? (
              <NoMatch
                kind={kind}
                places={search.q === undefined ? null : search.places}
                onShowAll={search.onShowAll ?? (() => search.onSearch(""))}
              />
            ) : (
              <EmptyList {...empty} action={add} />
            )
          }
        />
      </Stack>
    </>
  );
}
