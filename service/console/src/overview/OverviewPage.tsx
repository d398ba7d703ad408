import { Alert, Badge, Group, Paper, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconServerOff } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useMemo } from "react";

import { useGateways, useLink, useTraffic, useTunnels } from "../live/live";
import type { Gateway, Rate, Tunnel } from "../live/live";
import type { Rows } from "../live/rows";
import { PageHead } from "../shared/PageHead";
import { TunnelTable } from "../tunnels/TunnelTable";
import { Wizard } from "../wizard/Wizard";
import { LiveMap } from "./LiveMap";
import { lossOf, lossWords } from "./losses";

const NEWEST = 8;
const NO_RATES: Rows<Rate> = new Map();

export function OverviewPage() {
  const tunnels = useTunnels();
  const gateways = useGateways();
  const rates = useTraffic().rows ?? NO_RATES;
  const link = useLink();
  const open = useMemo(
    () => [...(tunnels.rows?.values() ?? [])].sort((a, b) => b.opened_at.localeCompare(a.opened_at)),
    [tunnels.rows],
  );
  const fleet = useMemo(() => [...(gateways.rows?.values() ?? [])], [gateways.rows]);
  const online = fleet.filter(({ state }) => state === "online").length;
  const isKnown = tunnels.rows !== null && gateways.rows !== null;
  return (
    <>
      <PageHead title="Overview" about="Open tunnels, people, devices and gateways, live.">
        <Badge variant="dot" color={link === "live" ? "culvert" : "gray"} size="lg" tt="none">
          {link === "live" ? "Live" : link === "lost" ? "Connection lost" : "Connecting"}
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
          <Losses gateways={fleet} tunnels={open} />
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
              <LiveMap tunnels={open} gateways={fleet} rates={rates} />
            )}
          </Paper>
          {open.length > 0 && (
            <section aria-label="Newest tunnels">
              <Text fw={600} mb="xs">
                Newest tunnels
              </Text>
              <TunnelTable tunnels={open.slice(0, NEWEST)} rates={rates} />
            </section>
          )}
        </Stack>
      )}
    </>
  );
}

/** Each gateway that is offline, with the reason and its tunnels' moves. */
function Losses({ gateways, tunnels }: { gateways: readonly Gateway[]; tunnels: readonly Tunnel[] }) {
  return gateways
    .filter(({ state }) => state === "offline")
    .map(({ name, reason }) => (
      <Alert
        key={name}
        color="red"
        variant="light"
        icon={<IconServerOff />}
        title={`${name} is offline`}
        role="status"
      >
        {lossWords(lossOf(name, tunnels)) || "The gateway had no open tunnels."}
        <Text size="xs" className="name">
          {reason}
        </Text>
      </Alert>
    ));
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
