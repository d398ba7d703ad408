import { Alert, Badge, Button, List, Paper, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconServerOff } from "@tabler/icons-react";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";

import { useGateways, useTraffic, useTunnelsBy, type Gateway } from "../live/live";
import { useMayWrite } from "../session/session";
import { EmptyList } from "../shared/EmptyList";
import { ButtonLink } from "../shared/links";
import { Loading } from "../shared/Loading";
import { PageHead } from "../shared/PageHead";
import { TimeSince } from "../shared/TimeSince";
import { counted } from "../shared/words";
import { TunnelTable } from "../tunnels/TunnelTable";
import { BundleDialog } from "./BundleDialog";
import { DrainDialog, UndrainButton } from "./DrainDialog";
import { DropsSection, useSamples } from "./DropsSection";
import { trip } from "./samples";
import { driftOf, keysOf, silentOf, stateOf } from "./state";
import { TablesSection } from "./TablesSection";

const TUNNELS_MAX = 50;

export function GatewayPage() {
  const { name } = useParams({ from: "/frame/gateways/of/$name" });
  const { rows } = useGateways();
  if (rows === null) return <Loading forWhat={name} />;
  const gateway = rows.get(name);
  if (gateway === undefined)
    return (
      <EmptyList
        icon={<IconServerOff />}
        title="There is no such gateway"
        action={
          <ButtonLink to="/gateways" variant="default">
            Open Gateways
          </ButtonLink>
        }
      >
        It may have been deleted.
      </EmptyList>
    );
  return <GatewayDetails gateway={gateway} />;
}

function GatewayDetails({ gateway }: { gateway: Gateway }) {
  const mayWrite = useMayWrite("gateways");
  const [draining, setDraining] = useState(false);
  // Fixed when the dialog opens: the download itself makes the next bundle a replacement.
  const [bundling, setBundling] = useState<{ replaces: boolean } | null>(null);
  const { hours = 1 } = useSearch({ from: "/frame/gateways/of/$name" });
  const navigate = useNavigate({ from: "/gateways/of/$name" });
  const newest = useSamples(gateway.name, hours).data?.at(-1);
  const rates = useTraffic().rows ?? undefined;
  const tunnels = useTunnelsBy("gateway").get(gateway.name) ?? [];
  const { word, colour } = stateOf(gateway);
  const publicAddress = [gateway.public_address, gateway.public_address6].filter(Boolean).join(", ");
  const silent = silentOf(gateway);
  const facts: [string, ReactNode][] = [
    ["Address", <Mono key="a">{[gateway.address, gateway.address6].filter(Boolean).join(", ")}</Mono>],
    ...(publicAddress === ""
      ? []
      : [["Public address", <Mono key="d">{publicAddress}</Mono>] as [string, ReactNode]]),
    ["Addresses of devices", <Mono key="p">{[gateway.pool, gateway.pool6].filter(Boolean).join(", ")}</Mono>],
    ["Encryption", gateway.suite],
    ["Controller", gateway.owner === "" ? "none" : gateway.owner],
    ["Last checked", <TimeSince key="r" at={gateway.reconciled_at} />],
    ["Entries", driftOf(gateway)],
    ["Keys", keysOf(gateway)],
    ["Only gateway of", gateway.alone_for.length === 0 ? "no resource" : gateway.alone_for.join(", ")],
    [
      "P4Runtime",
      gateway.p4runtime === null ? (
        ["The gateway connects", gateway.version].filter(Boolean).join(", version ")
      ) : (
        <Mono key="g">{[gateway.p4runtime, gateway.version].filter(Boolean).join(", version ")}</Mono>
      ),
    ],
    ["Round trip", gateway.state === "online" ? trip(newest?.round_trip_us) : "–"],
  ];
  return (
    <Stack gap="xl">
      <PageHead
        title={gateway.name}
        about={
          <>
            <Badge variant="light" color={colour} tt="none" mr="xs">
              {word}
            </Badge>
            {gateway.reason}
          </>
        }
      >
        {mayWrite && (
          <Button variant="default" onClick={() => setBundling({ replaces: gateway.keys.state !== "new" })}>
            Make a bundle
          </Button>
        )}
        {mayWrite &&
          (gateway.draining_since === null ? (
            <Button variant="default" onClick={() => setDraining(true)}>
              Drain
            </Button>
          ) : (
            <UndrainButton gateway={gateway} />
          ))}
      </PageHead>
      {silent.length > 0 && (
        <Alert color="yellow" title="Neighbours that do not answer">
          <List size="sm">
            {silent.map((line) => (
              <List.Item key={line}>{line}</List.Item>
            ))}
          </List>
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 3 }}>
        {facts.map(([label, fact]) => (
          <Paper key={label} withBorder p="md">
            <Text size="xs" c="dimmed">
              {label}
            </Text>
            <Text size="sm" component="div" className="name">
              {fact}
            </Text>
          </Paper>
        ))}
      </SimpleGrid>
      <section aria-label="Tunnels through this gateway">
        <Text fw={600} mb="xs">
          {tunnels.length === 0 ? "No tunnel is open" : counted(tunnels.length, "open tunnel")}
        </Text>
        {tunnels.length > 0 && (
          <TunnelTable tunnels={tunnels.slice(0, TUNNELS_MAX)} {...(rates && { rates })} />
        )}
      </section>
      <DropsSection
        name={gateway.name}
        hours={hours}
        onHours={(chosen) => void navigate({ search: chosen === 1 ? {} : { hours: chosen }, replace: true })}
      />
      <TablesSection name={gateway.name} isOnline={gateway.state === "online"} />
      {bundling && (
        <BundleDialog name={gateway.name} replaces={bundling.replaces} onClose={() => setBundling(null)} />
      )}
      {draining && <DrainDialog gateway={gateway} onClose={() => setDraining(false)} />}
    </Stack>
  );
}

function Mono({ children }: { children: ReactNode }) {
  return <span className="mono">{children}</span>;
}
