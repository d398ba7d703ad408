import { Badge, Table, Text } from "@mantine/core";

import type { Rate, Tunnel } from "../live/live";
import type { Rows } from "../live/rows";
import { useNow } from "../shared/useNow";
import { age, rate } from "../shared/words";

const carried = (of: Rate | undefined) => (of ? rate(of.from_device + of.to_device) : "–");

export function TunnelTable({ tunnels, rates }: { tunnels: readonly Tunnel[]; rates?: Rows<Rate> }) {
  const now = useNow();
  return (
    <Table.ScrollContainer minWidth={520}>
      <Table aria-label="Tunnels">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Person</Table.Th>
            <Table.Th>Name</Table.Th>
            <Table.Th>Gateway</Table.Th>
            <Table.Th>Outer address</Table.Th>
            {rates && <Table.Th ta="right">Rate</Table.Th>}
            <Table.Th ta="right">Open for</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {tunnels.map((tunnel) => (
            <Table.Tr key={tunnel.id}>
              <Table.Td className="name">
                {tunnel.user_display_name ?? tunnel.user}{" "}
                <Text span c="dimmed" inherit>
                  on {tunnel.device}
                </Text>
              </Table.Td>
              <Table.Td className="name">
                {tunnel.display_name}{" "}
                {tunnel.legacy && (
                  <Badge color="red" size="xs" variant="light">
                    {tunnel.suite}
                  </Badge>
                )}
              </Table.Td>
              <Table.Td>
                {tunnel.gateway}
                {tunnel.moved_from !== null && (
                  <Text span c="dimmed" inherit>
                    {" "}
                    from {tunnel.moved_from}
                  </Text>
                )}
              </Table.Td>
              <Table.Td className="mono">{tunnel.peer_address}</Table.Td>
              {rates && <Table.Td ta="right">{carried(rates.get(tunnel.id))}</Table.Td>}
              <Table.Td ta="right">{age(Date.parse(tunnel.opened_at), now)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
