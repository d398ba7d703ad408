import { Badge, Group, Table, Text } from "@mantine/core";
import { IconPlus, IconServer2 } from "@tabler/icons-react";

import { useGateways } from "../live/live";
import { useMayWrite } from "../session/session";
import { PageSwitch } from "../shared/PageSwitch";
import { Empty } from "../shared/Empty";
import { AnchorLink, ButtonLink } from "../shared/links";
import { Moment } from "../shared/Moment";
import { PageHead } from "../shared/PageHead";
import { Waiting } from "../shared/Waiting";
import { driftOf, stateOf } from "./state";

export function GatewayListPage() {
  const { rows } = useGateways();
  const add = useMayWrite("gateways") && (
    <ButtonLink to="/gateways/new" leftSection={<IconPlus size={16} />}>
      Add a gateway
    </ButtonLink>
  );
  const gateways = [...(rows?.values() ?? [])].sort((a, b) => a.name.localeCompare(b.name));
  return (
    <>
      <PageHead title="Gateways" about="Gateways end tunnels at your network. Their state is live.">
        {gateways.length > 0 && add}
      </PageHead>
      <Group mb="md">
        <PageSwitch at="/gateways" pages={["/gateways", "/site-tunnels"]} />
      </Group>
      {rows === null ? (
        <Waiting forWhat="gateways" />
      ) : gateways.length === 0 ? (
        <Empty icon={<IconServer2 />} title="No gateway yet" action={add}>
          A gateway carries tunnels into your network. Add one, or describe it in a file and register it with
          “culvert-controller gateway add”; it shows here as soon as it answers.
        </Empty>
      ) : (
        <Table.ScrollContainer minWidth={340}>
          <Table verticalSpacing="sm" aria-label="Gateways" highlightOnHover>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Name</Table.Th>
                <Table.Th>State</Table.Th>
                <Table.Th visibleFrom="sm">Last reconciled</Table.Th>
                <Table.Th visibleFrom="md">Drift</Table.Th>
                <Table.Th ta="right">Tunnels</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {gateways.map((gateway) => {
                const { word, colour } = stateOf(gateway);
                return (
                  <Table.Tr key={gateway.name}>
                    <Table.Td>
                      <AnchorLink to="/gateways/of/$name" params={{ name: gateway.name }} fw={550} c="bright">
                        {gateway.name}
                      </AnchorLink>
                      <Text size="xs" c="dimmed" className="mono">
                        {gateway.address}
                      </Text>
                    </Table.Td>
                    <Table.Td>
                      <Badge variant="light" color={colour} tt="none">
                        {word}
                      </Badge>
                      {gateway.reason !== "" && (
                        <Text size="xs" c="dimmed" mt={2} className="name">
                          {gateway.reason}
                        </Text>
                      )}
                    </Table.Td>
                    <Table.Td visibleFrom="sm">
                      <Moment at={gateway.reconciled_at} />
                    </Table.Td>
                    <Table.Td visibleFrom="md">{driftOf(gateway)}</Table.Td>
                    <Table.Td ta="right">{gateway.tunnels}</Table.Td>
                  </Table.Tr>
                );
              })}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </>
  );
}
