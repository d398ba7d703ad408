import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Paper, Table, Text, VisuallyHidden } from "@mantine/core";

import type { Rate, Tunnel } from "../live/live";
import type { Rows } from "../live/rows";
import { useMayWrite } from "../session/session";
import { AnchorLink } from "../shared/links";
import { useNow } from "../shared/useNow";
import { age, rate } from "../shared/words";
import { CloseTunnel } from "./CloseTunnel";

const carried = (of: Rate | undefined) => (of ? rate(of.from_device + of.to_device) : "–");

/** On a narrow screen the gateway stands below the name, and the outer address is absent. */
export function TunnelTable({ tunnels, rates }: { tunnels: readonly Tunnel[]; rates?: Rows<Rate> }) {
  const now = useNow();
  const mayClose = useMayWrite("tunnels");
  return (
    <Paper withBorder style={{ overflowX: "auto" }}>
      <Table aria-label={t`Tunnels`} horizontalSpacing="md">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>
              <Trans>Person</Trans>
            </Table.Th>
            <Table.Th>
              <Trans>Name</Trans>
            </Table.Th>
            <Table.Th visibleFrom="sm">
              <Trans>Gateway</Trans>
            </Table.Th>
            <Table.Th visibleFrom="md">
              <Trans>Outer address</Trans>
            </Table.Th>
            {rates && (
              <Table.Th ta="right" visibleFrom="sm">
                <Trans>Rate</Trans>
              </Table.Th>
            )}
            <Table.Th ta="right">
              <Trans>Open for</Trans>
            </Table.Th>
            {mayClose && (
              <Table.Th>
                <VisuallyHidden>
                  <Trans>Actions</Trans>
                </VisuallyHidden>
              </Table.Th>
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {tunnels.map((tunnel) => (
            <Table.Tr key={tunnel.id}>
              <Table.Td className="name">
                <AnchorLink to="/people/of/$name" params={{ name: tunnel.user }} inherit>
                  <bdi>{tunnel.user_display_name ?? tunnel.user}</bdi>
                </AnchorLink>{" "}
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
                <Text size="xs" hiddenFrom="sm">
                  <Via tunnel={tunnel} />
                </Text>
              </Table.Td>
              <Table.Td visibleFrom="sm">
                <Via tunnel={tunnel} />
              </Table.Td>
              <Table.Td className="mono" visibleFrom="md">
                {tunnel.peer_address}
              </Table.Td>
              {rates && (
                <Table.Td ta="right" visibleFrom="sm">
                  {carried(rates.get(tunnel.id))}
                </Table.Td>
              )}
              <Table.Td ta="right">{age(Date.parse(tunnel.opened_at), now)}</Table.Td>
              {mayClose && (
                <Table.Td ta="right" pl={0}>
                  <CloseTunnel tunnel={tunnel} />
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}

function Via({ tunnel: { gateway, moved_from } }: { tunnel: Tunnel }) {
  return (
    <>
      {gateway}
      {moved_from !== null && (
        <Text span c="dimmed" inherit>
          {" " + t`from ${moved_from}`}
        </Text>
      )}
    </>
  );
}
