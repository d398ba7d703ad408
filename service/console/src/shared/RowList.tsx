/** A table of any length, whose rows are loaded as a person scrolls. */
import { t } from "@lingui/core/macro";
import { Group, Paper, Table, UnstyledButton } from "@mantine/core";
import { IconChevronDown, IconChevronUp, IconSelector } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { say, type Text } from "../locale/language";
import type { Pages } from "./pages";
import { ProblemNote } from "./ProblemNote";
import { Loading } from "./Loading";
import { useRows } from "./useRows";

const HOVERED = "var(--mantine-color-default-hover)";

export interface Column<Row> {
  title: Text;
  /** In place of the title, with the rows that are loaded. */
  head?: (rows: readonly Row[]) => ReactNode;
  cell: (row: Row) => ReactNode;
  /** The narrowest screen that shows the column; without it, each screen does. */
  from?: "sm" | "md";
  align?: "right";
  /** The order's name: the controller's, if it sorts. */
  sort?: string;
  /** The order of rows that are all in the browser, such as those of a live view. */
  compare?: (a: Row, b: Row) => number;
}

/** `by` is the order's name, with a `-` before it if it is descending. */
export interface Sorting {
  by: string | undefined;
  onSort: (by: string) => void;
}

export interface RowListProps<Row> {
  label: string;
  options: Pages<Row>;
  columns: readonly Column<Row>[];
  keyOf: (row: Row) => string;
  empty: ReactNode;
  sorting?: Sorting;
}

export function RowList<Row>({ label, options, columns, keyOf, empty, sorting }: RowListProps<Row>) {
  const { list, rows, body, sight, above, below, measure } = useRows(options);
  if (list.isError) return <ProblemNote error={list.error} />;
  if (list.isPending) return <Loading forWhat={label} />;
  // A search may go on behind pages without a row.
  if (rows.length === 0) return list.hasNextPage ? <Loading forWhat={label} /> : empty;
  return (
    <Paper withBorder className="list" style={{ overflowX: "auto" }}>
      <RowTable
        label={label}
        rows={rows}
        columns={columns}
        sorting={sorting}
        count={list.hasNextPage ? -1 : rows.length}
      >
        <Table.Tbody ref={body}>
          {above > 0 && <Spacer height={above} columns={columns.length} />}
          {sight.map(({ index }) => {
            const row = rows[index];
            return (
              row !== undefined && (
                <Table.Tr key={keyOf(row)} data-index={index} ref={measure} aria-rowindex={index + 1}>
                  <Cells row={row} columns={columns} />
                </Table.Tr>
              )
            );
          })}
          {below > 0 && <Spacer height={below} columns={columns.length} />}
        </Table.Tbody>
      </RowTable>
      {list.isFetchingNextPage && <Loading forWhat={t`more`} />}
    </Paper>
  );
}

/** The same table of rows that are all known, such as those of a live view. Equal rows stay in the order of `rows`. */
export function LiveList<Row>({
  label,
  rows,
  columns,
  keyOf,
  sorting,
  shownMax = Infinity,
}: Omit<RowListProps<Row>, "options" | "empty"> & {
  rows: readonly Row[];
  /** The number of rows to show, the first ones in the chosen order. */
  shownMax?: number;
}) {
  return (
    <Paper withBorder className="list" style={{ overflowX: "auto" }}>
      <RowTable label={label} rows={rows} columns={columns} sorting={sorting} count={rows.length}>
        <Table.Tbody>
          {sortedBy(rows, columns, sorting?.by)
            .slice(0, shownMax)
            .map((row) => (
              <Table.Tr key={keyOf(row)}>
                <Cells row={row} columns={columns} />
              </Table.Tr>
            ))}
        </Table.Tbody>
      </RowTable>
    </Paper>
  );
}

function sortedBy<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  by: string | undefined,
): readonly Row[] {
  const compare = columns.find(({ sort }) => sort !== undefined && directionOf(sort, by) !== "none")?.compare;
  if (compare === undefined) return rows;
  return rows.toSorted(by?.startsWith("-") ? (a, b) => compare(b, a) : compare);
}

function RowTable<Row>({
  label,
  rows,
  columns,
  sorting,
  count,
  children,
}: {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  sorting?: Sorting | undefined;
  /** -1: not known yet (aria-rowcount). */
  count: number;
  children: ReactNode;
}) {
  return (
    <Table
      highlightOnHover
      highlightOnHoverColor={HOVERED}
      verticalSpacing="sm"
      horizontalSpacing="md"
      aria-label={label}
      aria-rowcount={count}
    >
      <Table.Thead>
        <Table.Tr>
          {columns.map((column) => (
            <Table.Th
              key={say(column.title)}
              ta={column.align ?? "left"}
              {...placed(column)}
              {...(column.sort !== undefined && { "aria-sort": directionOf(column.sort, sorting?.by) })}
            >
              {column.sort !== undefined && sorting ? (
                <SortButton title={say(column.title)} sort={column.sort} sorting={sorting} />
              ) : (
                (column.head?.(rows) ?? say(column.title))
              )}
            </Table.Th>
          ))}
        </Table.Tr>
      </Table.Thead>
      {children}
    </Table>
  );
}

function Cells<Row>({ row, columns }: { row: Row; columns: readonly Column<Row>[] }) {
  return columns.map((column) => (
    <Table.Td key={say(column.title)} ta={column.align ?? "left"} {...placed(column)}>
      {column.cell(row)}
    </Table.Td>
  ));
}

function placed({ from }: Pick<Column<never>, "from">) {
  return from === undefined ? {} : { visibleFrom: from };
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
      mih={24}
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
