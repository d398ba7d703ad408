import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Button, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconDownload, IconHistory, IconSearchOff } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { DNS_NAME_MAX } from "../api/contract";
import { say, type Text as Label } from "../locale/language";
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
  ["actor", msg`Actor`],
  ["action", msg`Action, e.g. tunnel.open`],
  ["object", msg`Object, e.g. resource/wiki`],
  ["reason", msg`Reason, e.g. NO_POLICY`],
] as const;

const KINDS: Record<Line["actor_kind"], Label> = {
  admin: msg`administrator`,
  token: msg`API token`,
  device: msg`device`,
  invitation: msg`invitation`,
  system: msg`system`,
};

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
        title={t`Activity`}
        about={t`All actions and refusals, with reasons. Each line is chained to the line before.`}
      >
        <Button
          component="a"
          variant="default"
          leftSection={<IconDownload size={16} />}
          href={`/api/v1/audit/export?${new URLSearchParams(asked(filter)).toString()}`}
          download="culvert-audit.jsonl"
        >
          <Trans>Export</Trans>
        </Button>
      </PageHead>
      <ChainVerification />
      <Group mb="md">
        {TEXTS.map(([field, label]) => (
          <TextInput
            key={field}
            aria-label={say(label)}
            placeholder={say(label)}
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
          aria-label={t`Outcome`}
          placeholder={t`Any outcome`}
          clearable
          clearButtonProps={{ "aria-label": t`Any outcome` }}
          w={{ base: "100%", xs: 150 }}
          data={[
            { value: "done", label: t`done` },
            { value: "denied", label: t`denied` },
          ]}
          value={filter.outcome ?? null}
          onChange={(outcome) => show({ outcome: outcome ?? "" })}
        />
      </Group>
      <RowList
        label={t`Activity`}
        options={linesQuery(filter)}
        keyOf={({ chain, seq }) => `${chain}/${seq}`}
        columns={COLUMNS}
        empty={
          Object.keys(filter).length > 0 ? (
            <EmptyList
              icon={<IconSearchOff />}
              title={t`No matching lines`}
              action={
                <Button
                  variant="default"
                  onClick={() => {
                    setTyped({});
                    void navigate({ search: {}, replace: true });
                  }}
                >
                  <Trans>Show all</Trans>
                </Button>
              }
            >
              <Trans>Names, actions and objects must match in full.</Trans>
            </EmptyList>
          ) : (
            <EmptyList icon={<IconHistory />} title={t`Nothing has happened yet`}>
              <Trans>Actions of administrators, devices and the controller appear here live.</Trans>
            </EmptyList>
          )
        }
      />
    </>
  );
}

const COLUMNS: Column<Line>[] = [
  {
    title: msg`Action`,
    cell: ({ action, outcome, why, ...line }) => (
      <Stack gap={0}>
        <Group gap="xs" wrap="nowrap">
          <Text size="sm" fw={550} className="mono">
            {action}
          </Text>
          {outcome === "denied" && (
            <Badge size="sm" color="red" variant="light" tt="none">
              <Trans>denied</Trans>
            </Badge>
          )}
        </Group>
        <Text size="xs" c="dimmed" className="name">
          {objectOf(line)}
          {why !== null && ` — ${line.names[why] ?? why}`}
        </Text>
        <Text size="xs" c="dimmed" hiddenFrom="sm" component="div">
          <TimeSince at={line.at} />
        </Text>
      </Stack>
    ),
  },
  {
    title: msg`Actor`,
    cell: ({ actor_kind, source, ...line }) => (
      <Stack gap={0}>
        <Text size="sm" className="name">
          {actorOf(line)}
        </Text>
        <Text size="xs" c="dimmed">
          {[say(KINDS[actor_kind]), source].filter(Boolean).join(", ")}
        </Text>
      </Stack>
    ),
  },
  { title: msg`Time`, from: "sm", cell: ({ at }) => <TimeSince at={at} /> },
];
