import { Badge, Table, Text } from "@mantine/core";

import type { Tunnel } from "../live/live";
import { useNow } from "../shared/useNow";
import { age } from "../shared/words";

export function TunnelTable({ tunnels }: { tunnels: readonly Tunnel[] }) {
  const now = useNow();
  return (
    <Table.ScrollContainer minWidth={520}>
      <Table aria-label="Tunnels">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Who</Table.Th>
            <Table.Th>Name</Table.Th>
            <Table.Th>Gateway</Table.Th>
            <Table.Th>From</Table.Th>
            <Table.Th ta="right">Open for</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {tunnels.map((tunnel) => (
            <Table.Tr key={tunnel.id}>
              <Table.Td className="name">
                {tunnel.user}{" "}
                <Text span c="dimmed" inherit>
                  on {tunnel.device}
                </Text>
              </Table.Td>
              <Table.Td className="name">
                {tunnel.fqdn}{" "}
                {tunnel.legacy && (
                  <Badge color="red" size="xs" variant="light">
                    {tunnel.suite}
                  </Badge>
                )}
              </Table.Td>
              <Table.Td>{tunnel.gateway}</Table.Td>
              <Table.Td className="mono">{tunnel.peer_address}</Table.Td>
              <Table.Td ta="right">{age(Date.parse(tunnel.opened_at), now)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
