import { msg, plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Group, Text } from "@mantine/core";
import { IconPlus, IconServer2 } from "@tabler/icons-react";

import { useGateways, type Gateway } from "../live/live";
import { useMayWrite } from "../session/session";
import { PageSwitch } from "../shared/PageSwitch";
import { EmptyList } from "../shared/EmptyList";
import { AnchorLink, ButtonLink } from "../shared/links";
import { TimeSince } from "../shared/TimeSince";
import { PageHead } from "../shared/PageHead";
import { LiveList, type Column } from "../shared/RowList";
import { Loading } from "../shared/Loading";
import { driftOf, silentOf, stateOf } from "./state";

export function GatewayListPage() {
  const { rows } = useGateways();
  const add = useMayWrite("gateways") && (
    <ButtonLink to="/gateways/join" leftSection={<IconPlus size={16} />}>
      <Trans>Add a gateway</Trans>
    </ButtonLink>
  );
  const gateways = [...(rows?.values() ?? [])].sort((a, b) => a.name.localeCompare(b.name));
  return (
    <>
      <PageHead title={t`Gateways`} about={t`Gateways end tunnels at your network. Their state is live.`}>
        {gateways.length > 0 && add}
      </PageHead>
      <Group mb="md">
        <PageSwitch at="/gateways" pages={["/gateways", "/site-tunnels"]} />
      </Group>
      {rows === null ? (
        <Loading forWhat={t`gateways`} />
      ) : gateways.length === 0 ? (
        <EmptyList icon={<IconServer2 />} title={t`No gateway yet`} action={add}>
          <Trans>
            A gateway carries tunnels into your network. Add one, or describe it in a file and register it
            with “culvert-controller gateway add”; it shows here as soon as it answers.
          </Trans>
        </EmptyList>
      ) : (
        <LiveList label={t`Gateways`} rows={gateways} columns={COLUMNS} keyOf={({ name }) => name} />
      )}
    </>
  );
}

const COLUMNS: Column<Gateway>[] = [
  {
    title: msg`Name`,
    cell: ({ name, address }) => (
      <>
        <AnchorLink to="/gateways/of/$name" params={{ name }} fw={550} c="bright">
          {name}
        </AnchorLink>
        <Text size="xs" c="dimmed" className="mono">
          {address}
        </Text>
      </>
    ),
  },
  {
    title: msg`State`,
    cell: (gateway) => {
      const { word, colour } = stateOf(gateway);
      const silent = silentOf(gateway);
      return (
        <>
          <Badge variant="light" color={colour} tt="none">
            {word}
          </Badge>
          {silent.length > 0 && (
            <Text size="xs" c="dimmed" mt={2}>
              {silent[0]}
              {silent.length > 1 && ", " + plural(silent.length - 1, { other: "and # more" })}
            </Text>
          )}
          {gateway.reason !== "" && (
            <Text size="xs" c="dimmed" mt={2} className="name">
              {gateway.reason}
            </Text>
          )}
        </>
      );
    },
  },
  {
    title: msg`Last checked`,
    from: "sm",
    cell: ({ reconciled_at }) => <TimeSince at={reconciled_at} />,
  },
  { title: msg`Entries`, from: "md", cell: driftOf },
  { title: msg`Tunnels`, align: "right", cell: ({ tunnels }) => tunnels },
];
