import { Badge, Button, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconDownload, IconHistory, IconSearchOff } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { DNS_NAME_MAX } from "../api/contract";
import { EmptyList } from "../shared/EmptyList";
import { TimeSince } from "../shared/TimeSince";
import { PageHead } from "../shared/PageHead";
import { RowList, type Column } from "../shared/RowList";
import { merged } from "../shared/search";
import { ChainVerification } from "./ChainVerification";
import { actorOf, objectOf } from "./lines";
import { asked, linesQuery, type Filter, type Line } from "./queries";

const PAUSE_MS = 250;
const TEXTS = [
  ["actor", "Actor"],
  ["action", "Action, e.g. tunnel.open"],
  ["object", "Object, e.g. resource/wiki"],
  ["reason", "Reason, e.g. NO_POLICY"],
] as const;

export function ActivityPage() {
  const filter = useSearch({ from: "/frame/activity" });
  const navigate = useNavigate({ from: "/activity" });
  const [typed, setTyped] = useState(filter);
  const show = (change: Filter) =>
    void navigate({ search: (before) => merged(before, change), replace: true });
  const showSoon = useDebouncedCallback(show, PAUSE_MS);
  return (
    <>
      <PageHead
        title="Activity"
        about="All actions and refusals, with reasons. Each line is chained to the line before."
      >
        <Button
          component="a"
          variant="default"
          leftSection={<IconDownload size={16} />}
          href={`/api/v1/audit/export?${new URLSearchParams(asked(filter)).toString()}`}
          download="culvert-audit.jsonl"
        >
          Export
        </Button>
      </PageHead>
      <ChainVerification />
      <Group mb="md">
        {TEXTS.map(([field, label]) => (
          <TextInput
            key={field}
            aria-label={label}
            placeholder={label}
            maxLength={DNS_NAME_MAX}
            w={{ base: "100%", xs: 215 }}
            value={typed[field] ?? ""}
            onChange={({ currentTarget: { value } }) => {
              setTyped((before) => ({ ...before, [field]: value }));
              showSoon({ [field]: value.trim() });
            }}
          />
        ))}
        <Select
          aria-label="Outcome"
          placeholder="Any outcome"
          clearable
          clearButtonProps={{ "aria-label": "Any outcome" }}
          w={{ base: "100%", xs: 150 }}
          data={["done", "denied"]}
          value={filter.outcome ?? null}
          onChange={(outcome) => show({ outcome: outcome ?? "" })}
        />
      </Group>
      <RowList
        label="Activity"
        options={linesQuery(filter)}
        keyOf={({ chain, seq }) => `${chain}/${seq}`}
        columns={COLUMNS}
        empty={
          Object.keys(filter).length > 0 ? (
            <EmptyList
              icon={<IconSearchOff />}
              title="No matching lines"
              action={
                <Button
                  variant="default"
                  onClick={() => {
                    setTyped({});
                    void navigate({ search: {}, replace: true });
                  }}
                >
                  Show all
                </Button>
              }
            >
              Names, actions and objects must match in full.
            </EmptyList>
          ) : (
            <EmptyList icon={<IconHistory />} title="Nothing has happened yet">
              Actions of administrators, devices and the controller appear here live.
            </EmptyList>
          )
        }
      />
    </>
  );
}

const COLUMNS: Column<Line>[] = [
  {
    title: "Action",
    cell: ({ action, outcome, why, ...line }) => (
      <Stack gap={0}>
        <Group gap="xs" wrap="nowrap">
          <Text size="sm" fw={550} className="mono">
            {action}
          </Text>
          {outcome === "denied" && (
            <Badge size="sm" color="red" variant="light" tt="none">
              denied
            </Badge>
          )}
        </Group>
        <Text size="xs" c="dimmed" className="name">
          {objectOf(line)}
          {why !== null && ` — ${line.names[why] ?? why}`}
        </Text>
      </Stack>
    ),
  },
  {
    title: "Actor",
    cell: ({ actor_kind, source, ...line }) => (
      <Stack gap={0}>
        <Text size="sm" className="name">
          {actorOf(line)}
        </Text>
        <Text size="xs" c="dimmed">
          {[actor_kind, source].filter(Boolean).join(", ")}
        </Text>
      </Stack>
    ),
  },
  { title: "Time", from: "sm", cell: ({ at }) => <TimeSince at={at} /> },
];
