import { Accordion, Badge, Box, Button, Group, Table, Text } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { ProblemNote } from "../shared/ProblemNote";
import { Waiting } from "../shared/Waiting";
import { byTable, words } from "./entries";

const SHOWN_MAX = 100;

/** The pipeline's tables as they are read back from the gateway; wrapped keys are left out by the controller. */
export function Tables({ name, isOnline }: { name: string; isOnline: boolean }) {
  const entries = useQuery({
    queryKey: ["gateways", "entries", name],
    queryFn: async () =>
      body(await api.GET("/api/v1/gateways/{name}/entries", { params: { path: { name } } })),
    enabled: isOnline,
  });
  const now = isOnline ? entries.data : undefined;
  return (
    <section aria-label="Tables">
      <Group justify="space-between" mb="xs">
        <Text fw={600}>Tables{now && `: ${now.count} entries, ${now.tunnel_entries} of tunnels`}</Text>
        {isOnline && (
          <Button
            size="compact-sm"
            variant="subtle"
            leftSection={<IconRefresh size={14} />}
            onClick={() => void entries.refetch()}
            loading={entries.isFetching}
          >
            Read again
          </Button>
        )}
      </Group>
      {!isOnline && (
        <Text size="sm" c="dimmed">
          They are read from the gateway once it is online.
        </Text>
      )}
      {isOnline && entries.isPending && <Waiting forWhat="tables" />}
      {isOnline && entries.isError && <ProblemNote error={entries.error} />}
      <Accordion variant="contained" chevronPosition="left" multiple>
        {byTable(now?.entries ?? []).map(([table, rows]) => (
          <Accordion.Item key={table} value={table}>
            <Accordion.Control>
              <Group gap="xs">
                <Text size="sm" className="mono">
                  {table}
                </Text>
                <Badge size="sm" variant="default">
                  {rows.length}
                </Badge>
              </Group>
            </Accordion.Control>
            <Accordion.Panel>
              <Box
                style={{ overflowX: "auto" }}
                tabIndex={0}
                role="region"
                aria-label={`Entries of ${table}`}
              >
                <Table fz="xs">
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>Match</Table.Th>
                      <Table.Th>Action</Table.Th>
                      <Table.Th>Parameters</Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {rows.slice(0, SHOWN_MAX).map((entry, at) => (
                      <Table.Tr key={at}>
                        <Table.Td className="mono">{words(entry.match)}</Table.Td>
                        <Table.Td className="mono">{entry.action}</Table.Td>
                        <Table.Td className="mono">{words(entry.params)}</Table.Td>
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
            </Accordion.Panel>
          </Accordion.Item>
        ))}
      </Accordion>
    </section>
  );
}
