/** The parts of a resource's page that show what is true now: its DNS records, and who has access. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Group, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";

import { Grants } from "../access/Grants";
import { api, page, type Schemas } from "../api/client";
import type { paths } from "../api/schema";
import { COLOURS, isZone, recordWords, STATE_NAMES } from "../dns/records";
import { useDns, type DnsRow, type Published } from "../live/live";
import { say } from "../locale/language";
import { useMayWrite } from "../session/session";
import { Name } from "../shared/Name";
import { AnchorLink } from "../shared/links";
import { pages, type OrderOf } from "../shared/pages";
import { PersonName } from "../shared/PersonName";
import { RowList, type Column } from "../shared/RowList";
import { TimeSince } from "../shared/TimeSince";

type WithAccess = Schemas["PersonWithAccessOut"];
type WithAccessOrder = OrderOf<paths["/api/v1/resources/{name}/access"]>;

const isRecord = (row: DnsRow): row is Published => "type" in row;

export function ResourceDns({ fqdn }: { fqdn: string }) {
  const { rows } = useDns();
  if (rows === null) return null;
  const zones = [...rows.values()].filter(isZone);
  const records = [...rows.values()].filter(isRecord).filter(({ name }) => name === fqdn);
  return (
    <section aria-label={t`DNS`}>
      <Title order={2} size="h5" mb="xs">
        <Trans>DNS</Trans>
      </Title>
      {records.length === 0 ? (
        <Text size="sm" c="dimmed">
          <Trans>No record is live for this name yet; the DNS page shows why.</Trans>
        </Text>
      ) : (
        <Stack component="ul" gap={6} m={0} p={0} style={{ listStyle: "none" }}>
          {records.map(({ zone, type, state, message, remedy, updated_at }) => (
            <li key={`${zone}/${type}`}>
              <Group gap="xs">
                <Badge variant="light" color={COLOURS[state]} tt="none">
                  {say(STATE_NAMES[state])}
                </Badge>
                <Text size="sm" className="name">
                  <Name>{recordWords({ type, zone }, zones)}</Name>
                </Text>
                <Text span size="sm" c="dimmed">
                  <Trans>
                    changed <TimeSince at={updated_at} />
                  </Trans>
                </Text>
              </Group>
              {message !== null && (
                <Text size="sm" c="dimmed" className="name">
                  <Name>{[message, remedy].filter(Boolean).join(" ")}</Name>
                </Text>
              )}
            </li>
          ))}
        </Stack>
      )}
    </section>
  );
}

export function ResourceAccess({ name }: { name: string }) {
  const mayWrite = useMayWrite("policies");
  const [sort, setSort] = useState<WithAccessOrder>("display_name");
  return (
    <section aria-label={t`Access`}>
      <Title order={2} size="h5" mb="xs">
        <Trans>Access</Trans>
      </Title>
      <RowList
        label={t`People with access`}
        options={pages(["policies", "of", "resource", name, sort], async (part) => {
          const params = { path: { name }, query: { ...part, sort } };
          return page(await api.GET("/api/v1/resources/{name}/access", { params }));
        })}
        sorting={{ by: sort, onSort: (by) => setSort(by as WithAccessOrder) }}
        keyOf={({ user }) => user}
        columns={columns()}
        empty={
          <Text size="sm" c="dimmed">
            <Trans>No policy lets anybody reach it.</Trans>{" "}
            {mayWrite && (
              <AnchorLink to="/policies/new" search={{ resource: name }} inherit underline="always">
                <Trans>Add a policy</Trans>
              </AnchorLink>
            )}
          </Text>
        }
      />
    </section>
  );
}

const columns = (): Column<WithAccess>[] => [
  {
    title: t`Person`,
    sort: "display_name",
    cell: ({ user, user_display_name }) => (
      <AnchorLink to="/people/of/$name" params={{ name: user }} size="sm" className="name">
        <PersonName user={user} displayName={user_display_name} />
      </AnchorLink>
    ),
  },
  { title: t`By`, cell: ({ grants }) => <Grants grants={grants} /> },
];
