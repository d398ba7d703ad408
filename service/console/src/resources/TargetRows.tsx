import { ActionIcon, Button, Group, Select, Text, TextInput } from "@mantine/core";
import { IconPlus, IconX } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { NO_TARGET, type TargetRow } from "./target";

const PROTOCOLS = [
  { value: "any", label: "Everything" },
  { value: "tcp", label: "TCP" },
  { value: "udp", label: "UDP" },
  { value: "icmp", label: "ICMP" },
];

/** What of a form these rows are a part of. */
interface Holder {
  getInputProps: (path: string) => object;
  insertListItem: (path: string, row: TargetRow) => void;
  removeListItem: (path: string, at: number) => void;
  errors: Record<string, ReactNode>;
}

/** Addresses, and of each what protocol and which ports. `path` is where they are in the form. */
export function TargetRows({
  form,
  path,
  rows,
  atLeast = 0,
  of = "",
}: {
  form: Holder;
  path: string;
  rows: readonly TargetRow[];
  atLeast?: number;
  /** Whose they are, where a page has several. */
  of?: string;
}) {
  return (
    <>
      {rows.map((target, at) => (
        <Group key={at} align="flex-start" gap="xs" wrap="wrap">
          <TextInput
            aria-label={`Address or prefix ${at + 1}${of}`}
            placeholder="10.20.0.10"
            required
            flex={2}
            miw={132}
            {...form.getInputProps(`${path}.${at}.prefix`)}
          />
          <Select
            aria-label={`Protocol ${at + 1}${of}`}
            data={PROTOCOLS}
            allowDeselect={false}
            w={132}
            {...form.getInputProps(`${path}.${at}.protocol`)}
          />
          {(target.protocol === "tcp" || target.protocol === "udp") && (
            <TextInput
              aria-label={`Ports ${at + 1}${of}`}
              placeholder="All ports; or 443, 8000-8100"
              flex={1}
              miw={160}
              {...form.getInputProps(`${path}.${at}.ports`)}
            />
          )}
          {rows.length > atLeast && (
            <ActionIcon
              variant="subtle"
              color="gray"
              size="lg"
              aria-label={`Remove address ${at + 1}${of}`}
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
          aria-label={`${rows.length > 0 ? "Another address" : "Add an address"}${of}`}
          onClick={() => form.insertListItem(path, NO_TARGET)}
        >
          {rows.length > 0 ? "Another address" : "Add an address"}
        </Button>
      </Group>
    </>
  );
}
