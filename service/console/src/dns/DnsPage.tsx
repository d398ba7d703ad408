import { msg, plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Button, Group, Paper, SegmentedControl, Select, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconPlus, IconSearchOff, IconSitemap } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { api } from "../api/client";
import { say, sayOptions, type Text as Label } from "../locale/language";
import { useDns, type Published, type Zone } from "../live/live";
import { useMayWrite } from "../session/session";
import { EmptyList } from "../shared/EmptyList";
import { Name } from "../shared/Name";
import { encoded } from "../shared/encoded";
import { TimeSince } from "../shared/TimeSince";
import { PageHead } from "../shared/PageHead";
import { notifyProblem } from "../shared/ProblemNote";
import { LiveList, type Column } from "../shared/RowList";
import { merged } from "../shared/search";
import { SearchField } from "../shared/SearchField";
import { span } from "../shared/words";
import { Loading } from "../shared/Loading";
import { ZoneCreateDialog } from "./ZoneCreateDialog";
import { ZoneActs } from "./ZoneActs";
import { ManagedZones } from "./ManagedZones";
import { managedZonesQuery } from "./queries";
import {
  chosen,
  COLOURS,
  recordWords,
  STATE_MEANINGS,
  STATE_NAMES,
  STATES,
  type RecordOrder,
} from "./records";
import { RecordValues } from "./RecordValues";

const SHOWN_MAX = 200;
const SHOWN_STATES: { value: Zone["state"] | ""; label: Label }[] = [
  { value: "", label: msg`all` },
  ...STATES.map((value) => ({ value, label: STATE_NAMES[value] })),
];

export function DnsPage() {
  const { dialog, ...filter } = useSearch({ from: "/frame/dns" });
  const navigate = useNavigate({ from: "/dns" });
  const { rows } = useDns();
  const mayWrite = useMayWrite("dns");
  const managed = useInfiniteQuery(managedZonesQuery);
  if (rows === null || managed.isPending) return <Loading forWhat={t`zones`} />;
  const { zones, records } = chosen(rows, filter);
  const state = STATES.find((known) => known === filter.state);
  // A managed zone; without a zone of a name server, none is published.
  const unserved = managed.data?.pages[0]?.rows[0]?.display_name;
  const show = (change: typeof filter & { dialog?: "add" | undefined }) =>
    void navigate({ search: (before) => merged(before, change), replace: true });
  const add = mayWrite && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => show({ dialog: "add" })}>
      {zones.length === 0 && unserved !== undefined ? t`Add the name server` : t`Add a zone`}
    </Button>
  );
  return (
    <>
      <PageHead
        title={t`DNS`}
        about={t`Records that Culvert publishes, and their state at the name servers.`}
      >
        {zones.length > 0 && add}
      </PageHead>
      {dialog === "add" && mayWrite && (
        <ZoneCreateDialog
          {...(zones.length === 0 && unserved !== undefined && { zone: unserved })}
          onClose={() => show({ dialog: undefined })}
        />
      )}
      {zones.length === 0 && (
        <EmptyList
          icon={<IconSitemap />}
          title={unserved === undefined ? t`No zone yet` : t`No name server yet for ${unserved}`}
          action={add}
        >
          <Trans>
            Culvert publishes the names of resources at the name server of a zone such as corp.example. It
            needs the server’s address and a TSIG key; until then, devices find a name only if your own DNS
            answers for it.
          </Trans>
        </EmptyList>
      )}
      <Stack gap="sm" mb="lg">
        {zones.map((zone) => (
          <ZoneCard key={zone.name} zone={zone} />
        ))}
      </Stack>
      <ManagedZones />
      {zones.length > 0 && (
        <>
          <Group mb="md">
            <SearchField label={t`Search records`} value={filter.q ?? ""} onSearch={(q) => show({ q })} />
            <SegmentedControl
              aria-label={t`State`}
              visibleFrom="sm"
              data={SHOWN_STATES.map(({ value, label }) => ({
                value,
                label:
                  value === "" ? say(label) : <span title={say(STATE_MEANINGS[value])}>{say(label)}</span>,
              }))}
              value={filter.state ?? ""}
              onChange={(state) => show({ state })}
            />
            <Select
              aria-label={t`State`}
              hiddenFrom="sm"
              allowDeselect={false}
              data={sayOptions(SHOWN_STATES)}
              value={filter.state ?? ""}
              onChange={(state) => show({ state: state ?? "" })}
            />
          </Group>
          {state !== undefined && (
            <Text size="sm" c="dimmed" mb="md" className="measure">
              {say(STATE_MEANINGS[state])}
            </Text>
          )}
          {records.length === 0 ? (
            <EmptyList
              icon={<IconSearchOff />}
              title={filter.q || filter.state ? t`No matching records` : t`No records yet`}
            >
              <Trans>Records show here as resources are published.</Trans>
            </EmptyList>
          ) : (
            <LiveList
              label={t`Records`}
              rows={records.slice(0, SHOWN_MAX)}
              columns={columnsOf(zones)}
              keyOf={({ zone, type, name }) => `${zone}/${type}/${name}`}
              sorting={{ by: filter.sort, onSort: (sort) => show({ sort: sort as RecordOrder }) }}
            />
          )}
          {records.length > SHOWN_MAX && (
            <Text size="sm" c="dimmed">
              {plural(records.length - SHOWN_MAX, { other: "and # more: search for them" })}
            </Text>
          )}
        </>
      )}
    </>
  );
}

const columnsOf = (zones: readonly Zone[]): Column<Published>[] => [
  {
    title: msg`Name`,
    sort: "name",
    cell: (record) => (
      <>
        <Text size="sm" className="name">
          <Name>{record.display_name}</Name>
        </Text>
        <Text size="xs" c="dimmed" className="name">
          <Name>{recordWords(record, zones)}</Name>
        </Text>
        <Encoded name={record.name} display_name={record.display_name} />
      </>
    ),
  },
  {
    title: msg`State`,
    sort: "state",
    cell: (record) => (
      <>
        <Badge variant="light" color={COLOURS[record.state]} tt="none">
          {say(STATE_NAMES[record.state])}
        </Badge>
        {record.message !== null && (
          <Text size="xs" c="dimmed" className="name">
            <Name>{[record.message, record.remedy].filter(Boolean).join(" ")}</Name>
          </Text>
        )}
        <RecordValues record={record} />
      </>
    ),
  },
  {
    title: msg`Changed`,
    sort: "changed",
    from: "sm",
    cell: ({ updated_at }) => <TimeSince at={updated_at} />,
  },
];

function Encoded({ name, display_name }: { name: string; display_name: string }) {
  const shown = encoded(name, display_name);
  return (
    shown !== null && (
      <Text size="xs" c="dimmed" className="name mono">
        <Name>{shown}</Name>
      </Text>
    )
  );
}

function ZoneCard({ zone }: { zone: Zone }) {
  const mayWrite = useMayWrite("dns");
  const check = useMutation({
    mutationFn: async () =>
      api.POST("/api/v1/dns/zones/{name}/check", { params: { path: { name: zone.name } } }),
    onSuccess: () => notifications.show({ message: t`${zone.display_name} is being checked` }),
    onError: notifyProblem,
  });
  // Without a DNS updater, nothing would take the request.
  const sayUnserved = () =>
    notifications.show({
      color: "yellow",
      autoClose: false,
      title: t`${zone.display_name} is not checked: no DNS updater has reported`,
      message: t`Start one on a host that reaches the name server: systemctl enable --now culvert-dns-updater`,
    });
  const behind = span(Math.ceil(zone.lag_seconds));
  return (
    <Paper withBorder p="md" component="section" aria-label={t`Zone ${zone.name}`} className="list">
      <Group justify="space-between" align="flex-start">
        <Stack gap={2} miw={0}>
          <Group gap="xs">
            <Text fw={600} className="name">
              <Name>{zone.display_name}</Name>
            </Text>
            <Badge variant="light" color={COLOURS[zone.state]} tt="none">
              {say(STATE_NAMES[zone.state])}
            </Badge>
          </Group>
          <Encoded name={zone.origin} display_name={zone.display_name} />
          <Text size="sm" c="dimmed" component="div" className="measure">
            <span className="mono name">
              <Name>{zone.server}</Name>
            </span>
            {zone.serial !== null && `, ${t`serial ${zone.serial}`}`},{" "}
            <Trans>
              checked: <TimeSince at={zone.checked_at} />
            </Trans>
            {zone.keeper !== null &&
              zone.lag_seconds > 0 &&
              `, ${t`${behind} behind the controller’s records`}`}
            {zone.keeper === null &&
              `, ${t`no DNS updater serves this zone: start culvert-dns-updater on a host that reaches its name server`}`}
          </Text>
          {zone.message !== null && (
            <Text size="sm" className="measure">
              {zone.message} {zone.remedy}
            </Text>
          )}
        </Stack>
        {mayWrite && (
          <Group gap="xs">
            <Button
              variant="default"
              onClick={() => (zone.keeper === null ? sayUnserved() : check.mutate())}
              loading={check.isPending}
            >
              <Trans>Check and retry now</Trans>
            </Button>
            <ZoneActs zone={zone} />
          </Group>
        )}
      </Group>
    </Paper>
  );
}
