/** A list of any length: a table whose rows come as they are scrolled to. */
import { Box, Group, Table, UnstyledButton } from "@mantine/core";
import { IconChevronDown, IconChevronUp, IconSelector } from "@tabler/icons-react";
import type { ReactNode } from "react";

import type { Pages } from "./pages";
import { ProblemNote } from "./ProblemNote";
import { Waiting } from "./Waiting";
import { useRows } from "./useRows";

export interface Column<Row> {
  title: string;
  cell: (row: Row) => ReactNode;
  /** Not where the screen is narrow. */
  wide?: boolean;
  align?: "right";
  /** What the controller calls this order. */
  sort?: string;
}

/** `by` is the order's name, with a `-` before it where it falls; a click asks for another. */
export interface Sorting {
  by: string | undefined;
  onSort: (by: string) => void;
}

export function RowList<Row>({
  label,
  options,
  columns,
  keyOf,
  empty,
  sorting,
}: {
  label: string;
  options: Pages<Row>;
  columns: readonly Column<Row>[];
  keyOf: (row: Row) => string;
  empty: ReactNode;
  sorting?: Sorting;
}) {
  const { list, rows, body, sight, above, below, measure } = useRows(options);
  if (list.isError) return <ProblemNote error={list.error} />;
  if (list.isPending) return <Waiting forWhat={label} />;
  if (rows.length === 0) return empty;
  const place = (column: Column<Row>) => (column.wide ? { visibleFrom: "sm" as const } : {});
  return (
    <Box style={{ overflowX: "auto" }}>
      <Table
        highlightOnHover
        verticalSpacing="sm"
        aria-label={label}
        aria-rowcount={list.hasNextPage ? -1 : rows.length}
      >
        <Table.Thead>
          <Table.Tr>
            {columns.map((column) => (
              <Table.Th
                key={column.title}
                ta={column.align ?? "left"}
                {...place(column)}
                {...(column.sort !== undefined && { "aria-sort": directionOf(column.sort, sorting?.by) })}
              >
                {column.sort !== undefined && sorting ? (
                  <SortButton title={column.title} sort={column.sort} sorting={sorting} />
                ) : (
                  column.title
                )}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody ref={body}>
          {above > 0 && <Spacer height={above} columns={columns.length} />}
          {sight.map(({ index }) => {
            const row = rows[index];
            return (
              row !== undefined && (
                <Table.Tr key={keyOf(row)} data-index={index} ref={measure} aria-rowindex={index + 1}>
                  {columns.map((column) => (
                    <Table.Td key={column.title} ta={column.align ?? "left"} {...place(column)}>
                      {column.cell(row)}
                    </Table.Td>
                  ))}
                </Table.Tr>
              )
            );
          })}
          {below > 0 && <Spacer height={below} columns={columns.length} />}
        </Table.Tbody>
      </Table>
      {list.isFetchingNextPage && <Waiting forWhat="more" />}
    </Box>
  );
}

function directionOf(sort: string, by: string | undefined): "ascending" | "descending" | "none" {
  return by === sort ? "ascending" : by === `-${sort}` ? "descending" : "none";
}

function SortButton({ title, sort, sorting }: { title: string; sort: string; sorting: Sorting }) {
  const direction = directionOf(sort, sorting.by);
  const Icon = { ascending: IconChevronUp, descending: IconChevronDown, none: IconSelector }[direction];
  return (
    <UnstyledButton
      fz="inherit"
      fw="inherit"
      onClick={() => sorting.onSort(direction === "ascending" ? `-${sort}` : sort)}
    >
      <Group gap={4} wrap="nowrap" component="span">
        {title}
        <Icon size={14} aria-hidden />
      </Group>
    </UnstyledButton>
  );
}

function Spacer({ height, columns }: { height: number; columns: number }) {
  return (
    <tr aria-hidden>
      <td colSpan={columns} style={{ height, padding: 0 }} />
    </tr>
  );
}
