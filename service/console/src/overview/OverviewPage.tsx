import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Alert, Badge, Grid, Group, Paper, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconServerOff } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useMemo } from "react";

import { useGateways, useLink, useTraffic, useTunnels } from "../live/live";
import type { Gateway, Rate, Tunnel } from "../live/live";
import type { Rows } from "../live/rows";
import { Name } from "../shared/Name";
import { PageHead } from "../shared/PageHead";
import { TunnelTable } from "../tunnels/TunnelTable";
import { Wizard } from "../wizard/Wizard";
import { LiveMap } from "./LiveMap";
import type { Named } from "./layout";
import { LastDay } from "./LastDay";
import { lossOf, lossWords } from "./losses";
import { NeedsYou } from "./NeedsYou";
import { idleQuery } from "./queries";

const NEWEST = 8;
const NO_RATES: Rows<Rate> = new Map();
const NO_RESOURCES: readonly Named[] = [];

export function OverviewPage() {
  const tunnels = useTunnels();
  const gateways = useGateways();
  const rates = useTraffic().rows ?? NO_RATES;
  const resources = useQuery(idleQuery).data ?? NO_RESOURCES;
  const link = useLink();
  const open = useMemo(
    () => [...(tunnels.rows?.values() ?? [])].sort((a, b) => b.opened_at.localeCompare(a.opened_at)),
    [tunnels.rows],
  );
  const fleet = useMemo(() => [...(gateways.rows?.values() ?? [])], [gateways.rows]);
  const online = fleet.filter(({ state }) => state === "online").length;
  const all = fleet.length;
  const isKnown = tunnels.rows !== null && gateways.rows !== null;
  return (
    <div className="wide">
      <PageHead isWide title={t`Overview`} about={t`Open tunnels, people, devices and gateways, live.`}>
        <Badge variant="dot" color={link === "live" ? "culvert" : "gray"} size="lg" tt="none">
          {link === "live" ? t`Live` : link === "lost" ? t`Connection lost` : t`Connecting`}
        </Badge>
      </PageHead>
      <Wizard />
      <SimpleGrid cols={{ base: 2, md: 4 }} mb="lg">
        <Figure label={t`Tunnels open`}>{isKnown ? open.length : "–"}</Figure>
        <Figure label={t`People with a tunnel`}>
          {isKnown ? new Set(open.map(({ user }) => user)).size : "–"}
        </Figure>
        <Figure label={t`Devices with a tunnel`}>
          {isKnown ? new Set(open.map(({ device_id }) => device_id)).size : "–"}
        </Figure>
        <Figure label={t`Gateways online`} alarm={isKnown && online < fleet.length}>
          {isKnown ? t`${online} of ${all}` : "–"}
        </Figure>
      </SimpleGrid>
      {isKnown && (
        <Stack gap="lg">
          <Losses gateways={fleet} tunnels={open} />
          <Grid gap="lg">
            <Grid.Col span={{ base: 12, xl: 9 }}>
              <Paper withBorder p={{ base: "sm", sm: "lg" }} h="100%">
                <Group justify="space-between" mb="md" c="dimmed">
                  <Text size="sm">{t`Devices`}</Text>
                  <Text size="sm">{t`Gateways`}</Text>
                  <Text size="sm">{t`Resources`}</Text>
                </Group>
                {fleet.length === 0 ? (
                  <Text c="dimmed" ta="center" py="xl">
                    <Trans>No gateway yet. Tunnels show here as they open.</Trans>
                  </Text>
                ) : (
                  <LiveMap tunnels={open} gateways={fleet} rates={rates} resources={resources} />
                )}
              </Paper>
            </Grid.Col>
            <Grid.Col span={{ base: 12, xl: 3 }}>
              <SimpleGrid cols={{ base: 1, sm: 2, xl: 1 }} spacing="lg">
                <NeedsYou />
                <LastDay />
              </SimpleGrid>
            </Grid.Col>
          </Grid>
          {open.length > 0 && (
            <section aria-label={t`Newest tunnels`}>
              <Text fw={600} mb="xs">
                <Trans>Newest tunnels</Trans>
              </Text>
              <TunnelTable tunnels={open.slice(0, NEWEST)} rates={rates} />
            </section>
          )}
        </Stack>
      )}
    </div>
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
        title={t`${name} is offline`}
        role="status"
      >
        {lossWords(lossOf(name, tunnels)) || t`The gateway had no open tunnels.`}
        <Text size="xs" className="name phrase">
          <Name>{reason}</Name>
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
      <Text size="xl" fw={600} {...(alarm && { c: "red" })} style={{ fontVariantNumeric: "tabular-nums" }}>
        {children}
      </Text>
    </Paper>
  );
}
