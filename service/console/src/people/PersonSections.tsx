/** The parts of a person's page, each of which asks for its own rows. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { Grants } from "../access/Grants";
import { questionOf } from "../activity/lines";
import { StateBadge } from "../devices/StateBadge";
import { devicesQuery, type Device, type DeviceOrder } from "../devices/queries";
import { Name } from "../shared/Name";
import { AnchorLink } from "../shared/links";
import { whyWith } from "../shared/LastDenied";
import { RowList, type Column } from "../shared/RowList";
import { TimeSince } from "../shared/TimeSince";
import { denialsQuery, personUseQuery, reachedQuery, type Reached, type ReachedOrder } from "./queries";

const DENIALS = 5;

export function PersonGroups({ name }: { name: string }) {
  const groups = useQuery(personUseQuery(name)).data?.groups ?? [];
  if (groups.length === 0) return null;
  return (
    <Section title={t`Groups`}>
      <Group gap="xs">
        {groups.map((group) => (
          <AnchorLink key={group} to="/groups/of/$name" params={{ name: group }} underline="never">
            <Badge component="span" variant="light" tt="none" size="lg" style={{ cursor: "pointer" }}>
              {group}
            </Badge>
          </AnchorLink>
        ))}
      </Group>
    </Section>
  );
}

export function PersonDevices({ name }: { name: string }) {
  const [sort, setSort] = useState<DeviceOrder>("name");
  return (
    <Section title={t`Devices`}>
      <RowList
        label={t`Devices`}
        options={devicesQuery({ user: name, sort })}
        sorting={{ by: sort, onSort: (by) => setSort(by as DeviceOrder) }}
        keyOf={({ id }) => id}
        columns={deviceColumns()}
        empty={<Nothing>{t`No computer is enrolled`}</Nothing>}
      />
    </Section>
  );
}

export function PersonReach({ name }: { name: string }) {
  const [sort, setSort] = useState<ReachedOrder>("fqdn");
  return (
    <Section title={t`Reaches`}>
      <RowList
        label={t`Resources that this person reaches`}
        options={reachedQuery(name, sort)}
        sorting={{ by: sort, onSort: (by) => setSort(by as ReachedOrder) }}
        keyOf={({ resource }) => resource}
        columns={reachColumns(name)}
        empty={<Nothing>{t`No policy names this person or one of their groups.`}</Nothing>}
      />
    </Section>
  );
}

export function PersonDenials({ name }: { name: string }) {
  const { data } = useQuery(denialsQuery(name, DENIALS));
  if (data === undefined || data.length === 0) return null;
  return (
    <Section title={t`Last denials`}>
      <Stack component="ul" gap={6} m={0} p={0} style={{ listStyle: "none" }}>
        {data.map((line) => {
          const { chain, seq, at, why } = line;
          const question = questionOf(line);
          const asked = question && (line.names[question.name] ?? question.name);
          return (
            <Group key={`${chain}/${seq}`} component="li" gap="md" align="baseline" wrap="nowrap">
              <Text size="sm" className="name measure" flex={1}>
                <Name>{whyWith(asked, why && (line.names[why] ?? why))}</Name>{" "}
                {question && (
                  <AnchorLink to="/access" search={question} inherit underline="always">
                    <Trans>Check access</Trans>
                  </AnchorLink>
                )}
              </Text>
              <Text span c="dimmed" flex="none">
                <TimeSince at={at} />
              </Text>
            </Group>
          );
        })}
      </Stack>
      <AnchorLink to="/activity" search={{ person: name }} size="sm" mt="xs" display="inline-block">
        <Trans>All activity of this person’s devices</Trans>
      </AnchorLink>
    </Section>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <Title order={2} size="h5" mb="xs">
        {title}
      </Title>
      {children}
    </section>
  );
}

function Nothing({ children }: { children: ReactNode }) {
  return (
    <Text size="sm" c="dimmed">
      {children}
    </Text>
  );
}

const deviceColumns = (): Column<Device>[] => [
  {
    title: t`Device`,
    sort: "name",
    cell: ({ name, user }) => (
      <AnchorLink to="/devices" search={{ q: name, user }} size="sm" className="name">
        <Name>{name}</Name>
      </AnchorLink>
    ),
  },
  { title: t`State`, sort: "state", cell: (device) => <StateBadge device={device} /> },
  {
    title: t`Last seen`,
    sort: "last_seen",
    cell: ({ online, last_seen_at }) =>
      online ? (
        <Text size="sm" c="var(--mantine-color-culvert-light-color)">
          <Trans>online</Trans>
        </Text>
      ) : (
        <TimeSince at={last_seen_at} />
      ),
  },
];

const reachColumns = (user: string): Column<Reached>[] => [
  {
    title: t`Resource`,
    sort: "fqdn",
    cell: ({ resource, display_name }) => (
      <AnchorLink to="/resources/of/$name" params={{ name: resource }} size="sm" className="name">
        <Name>{display_name}</Name>
      </AnchorLink>
    ),
  },
  { title: t`By`, cell: ({ grants }) => <Grants grants={grants} /> },
  {
    title: t`Now`,
    align: "right",
    from: "sm",
    cell: ({ display_name }) => (
      <AnchorLink
        to="/access"
        search={{ user, name: display_name }}
        size="sm"
        aria-label={t`Check ${display_name}`}
      >
        <Trans>Check</Trans>
      </AnchorLink>
    ),
  },
];
