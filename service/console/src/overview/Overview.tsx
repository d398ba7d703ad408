import { Badge, Group, Paper, SimpleGrid, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useMemo } from "react";

import { useGateways, useTunnels } from "../live/live";
import { PageHead } from "../shared/PageHead";
import { TunnelTable } from "../tunnels/TunnelTable";
import { Wizard } from "../wizard/Wizard";
import { LiveMap } from "./LiveMap";

const NEWEST = 8;

export function Overview() {
  const tunnels = useTunnels();
  const gateways = useGateways();
  const open = useMemo(
    () => [...(tunnels.rows?.values() ?? [])].sort((a, b) => b.opened_at.localeCompare(a.opened_at)),
    [tunnels.rows],
  );
  const fleet = useMemo(() => [...(gateways.rows?.values() ?? [])], [gateways.rows]);
  const online = fleet.filter(({ state }) => state === "online").length;
  const isKnown = tunnels.rows !== null && gateways.rows !== null;
  return (
    <>
      <PageHead title="Overview" about="What is connected at this moment.">
        <Badge variant="dot" color={tunnels.link === "live" ? "culvert" : "gray"} size="lg" tt="none">
          {tunnels.link === "live" ? "Live" : tunnels.link === "lost" ? "Connection lost" : "Connecting"}
        </Badge>
      </PageHead>
      <Wizard />
      <SimpleGrid cols={{ base: 2, md: 4 }} mb="lg">
        <Figure label="Tunnels open">{isKnown ? open.length : "–"}</Figure>
        <Figure label="People connected">{isKnown ? new Set(open.map(({ user }) => user)).size : "–"}</Figure>
        <Figure label="Devices connected">
          {isKnown ? new Set(open.map(({ device_id }) => device_id)).size : "–"}
        </Figure>
        <Figure label="Gateways online" alarm={isKnown && online < fleet.length}>
          {isKnown ? `${online} of ${fleet.length}` : "–"}
        </Figure>
      </SimpleGrid>
      {isKnown && (
        <Stack gap="xl">
          <Paper withBorder p="lg">
            <Group justify="space-between" mb="md" c="dimmed">
              <Text size="sm">Devices</Text>
              <Text size="sm">Gateways</Text>
              <Text size="sm">Resources</Text>
            </Group>
            {fleet.length === 0 ? (
              <Text c="dimmed" ta="center" py="xl">
                No gateway yet. Tunnels show here as they open.
              </Text>
            ) : (
              <LiveMap tunnels={open} gateways={fleet} />
            )}
          </Paper>
          {open.length > 0 && (
            <section aria-label="Newest tunnels">
              <Text fw={600} mb="xs">
                Newest tunnels
              </Text>
              <TunnelTable tunnels={open.slice(0, NEWEST)} />
            </section>
          )}
        </Stack>
      )}
    </>
  );
}

function Figure({ label, alarm = false, children }: { label: string; alarm?: boolean; children: ReactNode }) {
  return (
    <Paper withBorder p="md">
      <Text size="sm" c="dimmed">
        {label}
      </Text>
      <Text size="xl" fw={650} {...(alarm && { c: "red" })} style={{ fontVariantNumeric: "tabular-nums" }}>
        {children}
      </Text>
    </Paper>
  );
}
