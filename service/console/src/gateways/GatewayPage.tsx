import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Alert, Badge, Button, List, Paper, Stack, Text } from "@mantine/core";
import { IconPencil, IconServerOff } from "@tabler/icons-react";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";

import { useGateways, useTraffic, useTunnelsBy, type Gateway } from "../live/live";
import { useMayWrite } from "../session/session";
import { EmptyList } from "../shared/EmptyList";
import { ButtonLink } from "../shared/links";
import { Loading } from "../shared/Loading";
import { PageHead } from "../shared/PageHead";
import { DeleteButton } from "../shared/DeleteButton";
import { TimeSince } from "../shared/TimeSince";
import { day } from "../shared/words";
import { TunnelTable } from "../tunnels/TunnelTable";
import { BundleDialog } from "./BundleDialog";
import { CryptoHostsSection } from "./CryptoHostsSection";
import { DrainDialog, UndrainButton } from "./DrainDialog";
import { GatewayDeleteDialog } from "./GatewayDeleteDialog";
import { DropsSection } from "./DropsSection";
import { trip } from "./samples";
import { Software } from "./Software";
import { driftOf, keysOf, silentOf, stateOf } from "./state";
import { TablesSection } from "./TablesSection";
import { TrafficSection } from "./TrafficSection";
import { HOURS_AT_FIRST, useSamples } from "./useSamples";

const TUNNELS_MAX = 50;

export function GatewayPage() {
  const { name } = useParams({ from: "/frame/gateways/of/$name" });
  const { rows } = useGateways();
  if (rows === null) return <Loading forWhat={name} />;
  const gateway = rows.get(name);
  if (gateway === undefined)
    return (
      <>
        <PageHead title={name} />
        <EmptyList
          icon={<IconServerOff />}
          title={t`There is no such gateway`}
          action={
            <ButtonLink to="/gateways" variant="default">
              <Trans>Open Gateways</Trans>
            </ButtonLink>
          }
        >
          <Trans>It may have been deleted.</Trans>
        </EmptyList>
      </>
    );
  return <GatewayDetails gateway={gateway} />;
}

function GatewayDetails({ gateway }: { gateway: Gateway }) {
  const mayWrite = useMayWrite("gateways");
  const [draining, setDraining] = useState(false);
  const [deleting, setDeleting] = useState(false);
  // Fixed when the dialog opens: the download itself makes the next bundle a replacement.
  const [bundling, setBundling] = useState<{ replaces: boolean } | null>(null);
  const { hours = HOURS_AT_FIRST } = useSearch({ from: "/frame/gateways/of/$name" });
  const navigate = useNavigate({ from: "/gateways/of/$name" });
  const newest = useSamples(gateway.name, hours).data?.at(-1);
  const rates = useTraffic().rows ?? undefined;
  const tunnels = useTunnelsBy("gateway").get(gateway.name) ?? [];
  const { word, colour } = stateOf(gateway);
  const publicAddress = [gateway.public_address, gateway.public_address6].filter(Boolean).join(", ");
  const silent = silentOf(gateway);
  const facts: [string, ReactNode][] = [
    [t`Address`, <Mono key="a">{[gateway.address, gateway.address6].filter(Boolean).join(", ")}</Mono>],
    ...(publicAddress === ""
      ? []
      : [[t`Public address`, <Mono key="d">{publicAddress}</Mono>] as [string, ReactNode]]),
    [t`Address pool`, <Mono key="p">{[gateway.pool, gateway.pool6].filter(Boolean).join(", ")}</Mono>],
    [t`Encryption`, gateway.suite],
    [t`Controller`, gateway.owner === "" ? t`none` : gateway.owner],
    [t`Last checked`, <TimeSince key="r" at={gateway.reconciled_at} />],
    [t`Switch entries`, driftOf(gateway)],
    [t`Keys`, keysOf(gateway)],
    [t`Certificate`, certificateOf(gateway)],
    [
      t`No other gateway serves`,
      gateway.alone_for.length === 0 ? t`no resource` : gateway.alone_for.join(", "),
    ],
    [
      "P4Runtime",
      gateway.p4runtime === null
        ? connectsWords(gateway.version)
        : listensWords(gateway.p4runtime, gateway.version),
    ],
    [t`Software`, <Software key="s" of={gateway} />],
    [t`Round trip`, gateway.state === "online" ? trip(newest?.round_trip_us) : "–"],
  ];
  return (
    <Stack gap="xl" className="wide">
      <PageHead
        isWide
        title={gateway.name}
        about={
          <>
            <Badge variant="light" color={colour} tt="none" mr="xs">
              {word}
            </Badge>
            <Text component="span" inherit display="inline-block" className="phrase">
              {gateway.reason}
            </Text>
          </>
        }
      >
        {mayWrite && (
          <Button variant="default" onClick={() => setBundling({ replaces: gateway.keys.state !== "new" })}>
            <Trans>Make a bundle</Trans>
          </Button>
        )}
        {mayWrite &&
          (gateway.draining_since === null ? (
            <Button variant="default" onClick={() => setDraining(true)}>
              <Trans>Drain</Trans>
            </Button>
          ) : (
            <UndrainButton gateway={gateway} />
          ))}
        {mayWrite && (
          <ButtonLink
            to="/gateways/edit/$name"
            params={{ name: gateway.name }}
            variant="default"
            leftSection={<IconPencil size={16} />}
          >
            <Trans>Change</Trans>
          </ButtonLink>
        )}
        {mayWrite && <DeleteButton onClick={() => setDeleting(true)} />}
      </PageHead>
      {silent.length > 0 && (
        <Alert color="yellow" title={t`Neighbours that do not answer`}>
          <List size="sm">
            {silent.map((line) => (
              <List.Item key={line}>{line}</List.Item>
            ))}
          </List>
        </Alert>
      )}
      <Paper withBorder px="md" py="sm">
        <dl className="facts">
          {facts.map(([label, fact]) => (
            <div key={label}>
              <Text component="dt" size="xs" c="dimmed">
                {label}
              </Text>
              <Text component="dd" size="sm" m={0} className="name">
                {fact}
              </Text>
            </div>
          ))}
        </dl>
      </Paper>
      <section aria-label={t`Tunnels through this gateway`}>
        <Text fw={600} mb="xs">
          {plural(tunnels.length, { 0: "No tunnel is open", one: "# open tunnel", other: "# open tunnels" })}
        </Text>
        {tunnels.length > 0 && (
          <TunnelTable tunnels={tunnels} shownMax={TUNNELS_MAX} ofOneGateway {...(rates && { rates })} />
        )}
      </section>
      <div className="beside">
        <TrafficSection
          name={gateway.name}
          hours={hours}
          onHours={(chosen) =>
            void navigate({ search: chosen === HOURS_AT_FIRST ? {} : { hours: chosen }, replace: true })
          }
        />
        <DropsSection name={gateway.name} hours={hours} />
      </div>
      <CryptoHostsSection
        gateway={gateway.name}
        hasEngine={gateway.kind === "sluice" || gateway.kind === "bmv2"}
      />
      <TablesSection name={gateway.name} isOnline={gateway.state === "online"} />
      {bundling && (
        <BundleDialog name={gateway.name} replaces={bundling.replaces} onClose={() => setBundling(null)} />
      )}
      {deleting && <GatewayDeleteDialog gateway={gateway} onClose={() => setDeleting(false)} />}
      {draining && <DrainDialog gateway={gateway} onClose={() => setDraining(false)} />}
    </Stack>
  );
}

function certificateOf({ keys: { certificate_expires_at: end } }: Gateway): string {
  if (end === null) return t`none yet`;
  const until = day(end);
  return Date.parse(end) < Date.now() ? t`ended on ${until}` : t`until ${until}`;
}

const connectsWords = (version: string | null): string =>
  version === null ? t`The gateway connects` : t`The gateway connects, version ${version}`;

const listensWords = (address: string, version: string | null): string =>
  version === null ? address : t`${address}, version ${version}`;

function Mono({ children }: { children: ReactNode }) {
  return <span className="mono">{children}</span>;
}
