import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
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
      <Table aria-label={t`Tunnels`}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>
              <Trans>Person</Trans>
            </Table.Th>
            <Table.Th>
              <Trans>Name</Trans>
            </Table.Th>
            <Table.Th>
              <Trans>Gateway</Trans>
            </Table.Th>
            <Table.Th>
              <Trans>Outer address</Trans>
            </Table.Th>
            {rates && (
              <Table.Th ta="right">
                <Trans>Rate</Trans>
              </Table.Th>
            )}
            <Table.Th ta="right">
              <Trans>Open for</Trans>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {tunnels.map((tunnel) => (
            <Table.Tr key={tunnel.id}>
              <Table.Td className="name">
                {tunnel.user_display_name ?? tunnel.user}{" "}
                <Text span c="dimmed" inherit>
                  <Trans>on {tunnel.device}</Trans>
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
                    {" " + t`from ${tunnel.moved_from}`}
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
