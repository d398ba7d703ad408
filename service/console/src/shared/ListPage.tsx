/** A page with all rows of a kind: its title, a search, filters, and the rows. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Group, Stack } from "@mantine/core";
import { IconSearchOff } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { EmptyList } from "./EmptyList";
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
  const places = search?.places;
  const isFiltered = search !== undefined && (search.q !== undefined || search.isFiltered === true);
  return (
    <>
      <PageHead title={title} about={about}>
        {add}
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
              <EmptyList
                icon={<IconSearchOff />}
                title={t`No matching ${kind}`}
                action={
                  <Button variant="default" onClick={search.onShowAll ?? (() => search.onSearch(""))}>
                    <Trans>Show all</Trans>
                  </Button>
                }
              >
                <Trans>Nothing has this text {places}.</Trans>
              </EmptyList>
            ) : (
              <EmptyList {...empty} action={add} />
            )
          }
        />
      </Stack>
    </>
  );
}
