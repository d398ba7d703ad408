import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Stack, Text } from "@mantine/core";
import { IconArrowsLeftRight, IconPlus } from "@tabler/icons-react";

import { shown } from "../resources/target";
import { useMayWrite } from "../session/session";
import { ListPage } from "../shared/ListPage";
import { PageSwitch } from "../shared/PageSwitch";
import { AnchorLink, ButtonLink } from "../shared/links";
import { TimeSince } from "../shared/TimeSince";
import type { Column } from "../shared/RowList";
import { stateOf } from "./form";
import { siteTunnelsQuery, type End, type SiteTunnel } from "./queries";

export function SiteTunnelListPage() {
  const mayWrite = useMayWrite("site-tunnels");
  return (
    <ListPage
      title={t`Site tunnels`}
      about={t`Between two gateways, for hosts without Culvert; always on.`}
      add={
        mayWrite && (
          <ButtonLink to="/site-tunnels/new" leftSection={<IconPlus size={16} />}>
            <Trans>Add a site tunnel</Trans>
          </ButtonLink>
        )
      }
      before={<PageSwitch at="/site-tunnels" pages={["/gateways", "/site-tunnels"]} />}
      options={siteTunnelsQuery}
      keyOf={({ name }) => name}
      columns={COLUMNS}
      empty={{
        icon: <IconArrowsLeftRight />,
        title: t`No site tunnel yet`,
        children: t`A site tunnel joins two sites: hosts behind one gateway reach resources behind the other, and nothing else.`,
      }}
    />
  );
}

const COLUMNS: Column<SiteTunnel>[] = [
  {
    title: msg`Name`,
    cell: ({ name, ends }) => (
      <Stack gap={0}>
        <AnchorLink to="/site-tunnels/of/$name" params={{ name }} fw={550} className="name" c="bright">
          {name}
        </AnchorLink>
        <Text size="xs" c="dimmed" className="name">
          {ends.map(({ gateway }) => gateway).join(" ↔ ")}
        </Text>
      </Stack>
    ),
  },
  {
    title: msg`State`,
    cell: (tunnel) => {
      const { word, colour } = stateOf(tunnel);
      return (
        <>
          <Badge variant="light" color={colour} tt="none">
            {word}
          </Badge>
          {tunnel.reason !== "" && (
            <Text size="xs" c="dimmed" mt={2} className="name">
              {tunnel.reason}
            </Text>
          )}
        </>
      );
    },
  },
  {
    title: msg`Carries`,
    from: "sm",
    cell: ({ ends }) => (
      <Stack gap={2}>
        {ends.map((end) => (
          <Text key={end.gateway} size="sm" className="name">
            {behind(end)}
          </Text>
        ))}
      </Stack>
    ),
  },
  {
    title: msg`Last rekey`,
    from: "sm",
    cell: ({ keyed_at }) => <TimeSince at={keyed_at} never={t`none yet`} />,
  },
];

function behind({ resources = [], targets = [] }: End): string {
  return [...resources, ...targets.map(shown)].join(", ");
}
