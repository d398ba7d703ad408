/** A list of any length: a table whose rows come as they are scrolled to. */
import { Box, Table } from "@mantine/core";
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
}

export function RowList<Row>({
  label,
  options,
  columns,
  keyOf,
  empty,
}: {
  label: string;
  options: Pages<Row>;
  columns: readonly Column<Row>[];
  keyOf: (row: Row) => string;
  empty: ReactNode;
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
              <Table.Th key={column.title} ta={column.align ?? "left"} {...place(column)}>
                {column.title}
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

function Spacer({ height, columns }: { height: number; columns: number }) {
  return (
    <tr aria-hidden>
      <td colSpan={columns} style={{ height, padding: 0 }} />
    </tr>
  );
}
