import { t } from "@lingui/core/macro";
import { ActionIcon, Button, Group, Text, type GroupProps } from "@mantine/core";
import { IconPlus, IconX } from "@tabler/icons-react";
import type { ReactNode } from "react";

/** The part of a form's interface that rows need. */
export interface Holder<Row> {
  getInputProps: (path: string) => object;
  insertListItem: (path: string, row: Row) => void;
  removeListItem: (path: string, at: number) => void;
  errors: Record<string, ReactNode>;
}

const LABEL_PX = 22;

/** `number` counts from 1. */
const removal = (one: string, number: number): string => t`Remove ${one} ${number}`;

/** Rows of a form that a person adds and removes. `path` is their place in the form. */
export function FormRows<Row>({
  form,
  path,
  rows,
  atLeast = 0,
  one,
  of = "",
  align = "flex-start",
  isLabelled = false,
  blank,
  add,
  beside,
  children,
}: {
  form: Holder<Row>;
  path: string;
  rows: readonly Row[];
  atLeast?: number;
  /** A row's name: "address". */
  one: string;
  /** The rows' owner, on a page with several groups of rows. */
  of?: string;
  align?: NonNullable<GroupProps["align"]>;
  /** The first row's fields have labels above them. */
  isLabelled?: boolean;
  /** A new row. */
  blank: Row;
  /** The button's text. */
  add: string;
  /** An element beside the button. */
  beside?: ReactNode;
  children: (row: Row, at: number) => ReactNode;
}) {
  return (
    <>
      {rows.map((row, at) => (
        <Group key={at} gap="xs" align={align}>
          {children(row, at)}
          {rows.length > atLeast && (
            <ActionIcon
              variant="subtle"
              color="gray"
              size="lg"
              {...(isLabelled && at === 0 && { mt: LABEL_PX })}
              aria-label={removal(one, at + 1) + of}
              onClick={() => form.removeListItem(path, at)}
            >
              <IconX size={16} />
            </ActionIcon>
          )}
        </Group>
      ))}
      {form.errors[path] && (
        <Text size="xs" c="red">
          {form.errors[path]}
        </Text>
      )}
      <Group>
        <Button
          variant="subtle"
          size="compact-sm"
          leftSection={<IconPlus size={14} />}
          aria-label={add + of}
          onClick={() => form.insertListItem(path, { ...blank })}
        >
          {add}
        </Button>
        {beside}
      </Group>
    </>
  );
}
