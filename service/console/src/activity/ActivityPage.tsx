import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Autocomplete, Badge, Button, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback, useDisclosure } from "@mantine/hooks";
import { IconDownload, IconFilter, IconHistory, IconSearchOff } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { Name } from "../shared/Name";
import { useFound } from "../shared/found";
import { DNS_NAME_MAX } from "../api/contract";
import { say, type Text as Label } from "../locale/language";
import { EmptyList } from "../shared/EmptyList";
import { AnchorLink } from "../shared/links";
import { TimeSince } from "../shared/TimeSince";
import { PageHead } from "../shared/PageHead";
import { RowList, type Column } from "../shared/RowList";
import { merged } from "../shared/search";
import { SearchField } from "../shared/SearchField";
import { dayInFull } from "../shared/words";
import { ChainVerification } from "./ChainVerification";
import { listActs, listReasons, questionOf, sentenceOf } from "./lines";
import { asked, linesQuery, type Filter, type Line } from "./queries";

const PAUSE_MS = 250;
const TEXTS = [
  ["actor", msg`Actor`, "olga"],
  ["object", msg`Object`, "resource/wiki"],
] as const;
const DAYS = [
  ["from", msg`From this day`],
  ["to", msg`Until this day`],
] as const;
const HALF = "calc(50% - 8px)";
const FIELD = { base: HALF, xs: 215 };

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
  const people = useFound("users", typed.person ?? "");
  const [isUnfolded, { toggle }] = useDisclosure();
  const set = Object.keys(filter).filter((name) => !["q", "sort"].includes(name)).length;
  const type = (field: keyof Filter, value: string) => {
    setTyped((before) => ({ ...before, [field]: value }));
    showSoon({ [field]: value.trim() });
  };
  return (
    <>
      <PageHead
        title={t`Activity`}
        about={t`All actions and denials, with reasons. Each line is chained to the line before.`}
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
        <SearchField
          label={t`Search people, devices, resources`}
          value={filter.q ?? ""}
          onSearch={(q) => show({ q })}
        />
      </Group>
      {/* On a small screen the first line would stand below the fields. */}
      <Button
        hiddenFrom="xs"
        variant="default"
        mb="md"
        leftSection={<IconFilter size={16} />}
        aria-expanded={isUnfolded}
        onClick={toggle}
      >
        {set === 0 ? t`Filters` : t`Filters (${set})`}
      </Button>
      <Group mb="md" align="flex-start" {...(!isUnfolded && { visibleFrom: "xs" })}>
        <Autocomplete
          label={t`Person`}
          placeholder="alice"
          // The list is as wide as the field, and has names in full.
          w={{ base: "100%", xs: FIELD.xs }}
          spellCheck={false}
          maxLength={DNS_NAME_MAX}
          {...people}
          value={typed.person ?? ""}
          onChange={(person) => type("person", person)}
        />
        <Select
          label={t`Act`}
          placeholder={t`Any act`}
          clearable
          searchable
          clearButtonProps={{ "aria-label": t`Any act` }}
          w={FIELD}
          data={listActs()}
          value={filter.action ?? null}
          onChange={(action) => show({ action: action ?? "" })}
        />
        <Select
          label={t`Outcome`}
          placeholder={t`Any outcome`}
          clearable
          clearButtonProps={{ "aria-label": t`Any outcome` }}
          w={{ base: HALF, xs: 150 }}
          data={[
            { value: "done", label: t`done` },
            { value: "denied", label: t`denied` },
          ]}
          value={filter.outcome ?? null}
          onChange={(outcome) => show({ outcome: outcome ?? "" })}
        />
        <Select
          label={t`Reason`}
          placeholder={t`Any reason`}
          clearable
          searchable
          clearButtonProps={{ "aria-label": t`Any reason` }}
          w={FIELD}
          data={listReasons(filter.reason)}
          value={filter.reason ?? null}
          onChange={(reason) => show({ reason: reason ?? "" })}
        />
        {DAYS.map(([field, label]) => (
          <TextInput
            key={field}
            type="date"
            label={say(label)}
            // The browser writes the date as its own settings say, in whichever language the page is.
            description={dayInFull(filter[field] ?? "")}
            w={{ base: HALF, xs: 150 }}
            value={filter[field] ?? ""}
            onChange={({ currentTarget: { value } }) => show({ [field]: value })}
          />
        ))}
        {TEXTS.map(([field, label, example]) => (
          <TextInput
            key={field}
            label={say(label)}
            placeholder={example}
            maxLength={DNS_NAME_MAX}
            w={FIELD}
            value={typed[field] ?? ""}
            onChange={({ currentTarget: { value } }) => type(field, value)}
          />
        ))}
      </Group>
      <RowList
        label={t`Activity`}
        options={linesQuery(filter)}
        keyOf={({ chain, seq }) => `${chain}/${seq}`}
        columns={COLUMNS}
        sorting={{ by: filter.sort ?? "-at", onSort: (sort) => show({ sort: sort as "at" }) }}
        empty={
          Object.keys(filter).some((name) => name !== "sort") ? (
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
              <Trans>The search takes a part of a name; person, actor and object must match in full.</Trans>
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
    title: msg`What happened`,
    cell: ({ why, ...line }) => {
      const question = questionOf(line);
      return (
        <Stack gap={0}>
          <Text size="sm" className="name">
            {line.outcome === "denied" && (
              <Badge size="sm" color="red" variant="light" tt="none" mr="xs">
                <Trans>denied</Trans>
              </Badge>
            )}
            <Name>{sentenceOf(line)}</Name>
          </Text>
          {why !== null && (
            <Text size="xs" c="dimmed" className="name">
              <Name>{line.names[why] ?? why}</Name>{" "}
              {question && (
                <AnchorLink to="/access" search={question} inherit underline="always">
                  <Trans>Check access</Trans>
                </AnchorLink>
              )}
            </Text>
          )}
          <Text size="xs" c="dimmed" hiddenFrom="sm" component="div">
            <TimeSince at={line.at} />
          </Text>
        </Stack>
      );
    },
  },
  {
    title: msg`By`,
    from: "sm",
    cell: ({ actor_kind, source }) => (
      <Text size="xs" c="dimmed">
        {[say(KINDS[actor_kind]), source].filter(Boolean).join(", ")}
      </Text>
    ),
  },
  { title: msg`Time`, sort: "at", from: "sm", cell: ({ at }) => <TimeSince at={at} /> },
];
