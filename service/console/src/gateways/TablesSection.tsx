import { Accordion, Badge, Box, Button, Group, SegmentedControl, Table, Text } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { api, body } from "../api/client";
import { Loading } from "../shared/Loading";
import { ProblemNote } from "../shared/ProblemNote";
import { counted } from "../shared/words";
import { byTable, driftIn, words, type Entry } from "./entries";

const SHOWN_MAX = 100;
const COLOURS: Record<Entry["standing"], string> = {
  held: "culvert",
  missing: "red",
  foreign: "orange",
  changed: "yellow",
};
const STATES: Record<Entry["standing"], string> = {
  held: "as desired",
  missing: "missing",
  foreign: "foreign",
  changed: "changed",
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
    <section aria-label="Tables">
      <Group justify="space-between" mb="xs">
        <Group gap="xs">
          <Text fw={600}>
            Tables{answer && `: ${answer.count} entries, ${answer.tunnel_entries} of tunnels`}
          </Text>
          {answer && (
            <Badge variant="light" tt="none" color={drift.length === 0 ? "culvert" : "red"}>
              {drift.length === 0 ? "no differences" : counted(drift.length, "difference")}
            </Badge>
          )}
        </Group>
        {isOnline && (
          <Group gap="xs">
            <SegmentedControl
              size="xs"
              aria-label="Entries"
              data={[
                { value: "all", label: "all" },
                { value: "drift", label: "differences" },
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
              Read again
            </Button>
          </Group>
        )}
      </Group>
      {!isOnline && (
        <Text size="sm" c="dimmed">
          The tables can be read while the gateway is online.
        </Text>
      )}
      {isOnline && entries.isPending && <Loading forWhat="tables" />}
      {isOnline && entries.isError && <ProblemNote error={entries.error} />}
      {answer && shown.length === 0 && (
        <Text size="sm" c="dimmed">
          The gateway has exactly the desired entries.
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
                    {counted(driftIn(rows).length, "difference")}
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
      <Box style={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label={`Entries of ${table}`}>
        <Table fz="xs">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Match</Table.Th>
              <Table.Th>Action</Table.Th>
              <Table.Th>Parameters</Table.Th>
              {counts && <Table.Th ta="right">Packets</Table.Th>}
              {counts && <Table.Th ta="right">Bytes</Table.Th>}
              <Table.Th>State</Table.Th>
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
                  {counts && <Table.Td ta="right">{entry.packets?.toLocaleString("en") ?? "–"}</Table.Td>}
                  {counts && <Table.Td ta="right">{entry.bytes?.toLocaleString("en") ?? "–"}</Table.Td>}
                  <Table.Td>
                    <Badge size="sm" variant="light" tt="none" color={COLOURS[entry.standing]}>
                      {STATES[entry.standing]}
                    </Badge>
                  </Table.Td>
                </Table.Tr>
              ))}
          </Table.Tbody>
        </Table>
      </Box>
      {rows.length > SHOWN_MAX && (
        <Text size="xs" c="dimmed" mt="xs">
          and {rows.length - SHOWN_MAX} more
        </Text>
      )}
    </>
  );
}

function Desired({ children }: { children: ReactNode }) {
  return (
    <Text size="xs" c="dimmed" className="mono">
      desired: {children}
    </Text>
  );
}
