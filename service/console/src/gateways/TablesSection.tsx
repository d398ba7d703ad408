import { i18n, type MessageDescriptor } from "@lingui/core";
import { msg, plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Accordion, Badge, Box, Button, Group, SegmentedControl, Table, Text } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { api, body } from "../api/client";
import { locales } from "../locale/language";
import { Loading } from "../shared/Loading";
import { ProblemNote } from "../shared/ProblemNote";
import { byTable, driftIn, words, type Entry } from "./entries";

const SHOWN_MAX = 100;
const COLOURS: Record<Entry["standing"], string> = {
  held: "culvert",
  missing: "red",
  foreign: "orange",
  changed: "yellow",
};
const STATES: Record<Entry["standing"], MessageDescriptor> = {
  held: msg`as desired`,
  missing: msg`missing`,
  foreign: msg`foreign`,
  changed: msg`changed`,
};

/** The pipeline's observed entries, beside the desired ones; the controller leaves wrapped keys out. */
export function TablesSection({ name, isOnline }: { name: string; isOnline: boolean }) {
  const entries = useQuery({
    queryKey: ["gateways", "entries", name],
    queryFn: async () =>
      body(await api.GET("/api/v1/gateways/{name}/entries", { params: { path: { name } } })),
    enabled: isOnline,
  });
  const [which, setWhich] = useState("all");
  const answer = isOnline ? entries.data : undefined;
  // openapi-fetch gives tuples as arrays.
  const all = (answer?.entries ?? []) as Entry[];
  const drift = driftIn(all);
  const shown = which === "drift" ? drift : all;
  return (
    <section aria-label={t`Tables`}>
      <Group justify="space-between" mb="xs">
        <Group gap="xs">
          <Text fw={600}>
            {answer ? t`Tables: ${answer.count} entries, ${answer.tunnel_entries} of tunnels` : t`Tables`}
          </Text>
          {answer && (
            <Badge variant="light" tt="none" color={drift.length === 0 ? "culvert" : "red"}>
              {drift.length === 0
                ? t`no differences`
                : plural(drift.length, { one: "# difference", other: "# differences" })}
            </Badge>
          )}
        </Group>
        {isOnline && (
          <Group gap="xs">
            <SegmentedControl
              size="xs"
              aria-label={t`Entries`}
              data={[
                { value: "all", label: t`all` },
                { value: "drift", label: t`differences` },
              ]}
              value={which}
              onChange={setWhich}
            />
            <Button
              size="compact-sm"
              variant="subtle"
              leftSection={<IconRefresh size={14} />}
              onClick={() => void entries.refetch()}
              loading={entries.isFetching}
            >
              <Trans>Read again</Trans>
            </Button>
          </Group>
        )}
      </Group>
      {!isOnline && (
        <Text size="sm" c="dimmed">
          <Trans>The tables can be read while the gateway is online.</Trans>
        </Text>
      )}
      {isOnline && entries.isPending && <Loading forWhat={t`tables`} />}
      {isOnline && entries.isError && <ProblemNote error={entries.error} />}
      {answer && shown.length === 0 && (
        <Text size="sm" c="dimmed">
          <Trans>The gateway has exactly the desired entries.</Trans>
        </Text>
      )}
      <Accordion variant="contained" chevronPosition="left" multiple>
        {byTable(shown).map(([table, rows]) => (
          <Accordion.Item key={table} value={table}>
            <Accordion.Control>
              <Group gap="xs">
                <Text size="sm" className="mono">
                  {table}
                </Text>
                <Badge size="sm" variant="default">
                  {rows.length}
                </Badge>
                {driftIn(rows).length > 0 && (
                  <Badge size="sm" variant="light" color="red" tt="none">
                    {plural(driftIn(rows).length, { one: "# difference", other: "# differences" })}
                  </Badge>
                )}
              </Group>
            </Accordion.Control>
            <Accordion.Panel>
              <Entries table={table} rows={rows} />
            </Accordion.Panel>
          </Accordion.Item>
        ))}
      </Accordion>
    </section>
  );
}

function Entries({ table, rows }: { table: string; rows: readonly Entry[] }) {
  const counts = rows.some(({ packets }) => packets !== null);
  return (
    <>
      <Box style={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label={t`Entries of ${table}`}>
        <Table fz="xs">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>
                <Trans>Match</Trans>
              </Table.Th>
              <Table.Th>
                <Trans>Action</Trans>
              </Table.Th>
              <Table.Th>
                <Trans>Parameters</Trans>
              </Table.Th>
              {counts && (
                <Table.Th ta="right">
                  <Trans>Packets</Trans>
                </Table.Th>
              )}
              {counts && (
                <Table.Th ta="right">
                  <Trans>Bytes</Trans>
                </Table.Th>
              )}
              <Table.Th>
                <Trans>State</Trans>
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {[...driftIn(rows), ...rows.filter(({ standing }) => standing === "held")]
              .slice(0, SHOWN_MAX)
              .map((entry, at) => (
                <Table.Tr key={at}>
                  <Table.Td className="mono">{words(entry.match)}</Table.Td>
                  <Table.Td className="mono">
                    {entry.action}
                    {entry.desired && <Desired>{entry.desired.action}</Desired>}
                  </Table.Td>
                  <Table.Td className="mono">
                    {words(entry.params)}
                    {entry.desired && <Desired>{words(entry.desired.params)}</Desired>}
                  </Table.Td>
                  {counts && (
                    <Table.Td ta="right">{entry.packets?.toLocaleString(locales()) ?? "–"}</Table.Td>
                  )}
                  {counts && <Table.Td ta="right">{entry.bytes?.toLocaleString(locales()) ?? "–"}</Table.Td>}
                  <Table.Td>
                    <Badge size="sm" variant="light" tt="none" color={COLOURS[entry.standing]}>
                      {i18n._(STATES[entry.standing])}
                    </Badge>
                  </Table.Td>
                </Table.Tr>
              ))}
          </Table.Tbody>
        </Table>
      </Box>
      {rows.length > SHOWN_MAX && (
        <Text size="xs" c="dimmed" mt="xs">
          {plural(rows.length - SHOWN_MAX, { other: "and # more" })}
        </Text>
      )}
    </>
  );
}

function Desired({ children }: { children: ReactNode }) {
  return (
    <Text size="xs" c="dimmed" className="mono">
      <Trans>desired: {children}</Trans>
    </Text>
  );
}
