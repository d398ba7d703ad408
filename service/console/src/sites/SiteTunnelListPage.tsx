import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Stack, Text } from "@mantine/core";
import { IconArrowsLeftRight, IconPlus } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { shown } from "../resources/target";
import { useMayWrite } from "../session/session";
import { ListPage } from "../shared/ListPage";
import { Name } from "../shared/Name";
import { PageSwitch } from "../shared/PageSwitch";
import { AnchorLink, ButtonLink } from "../shared/links";
import { TimeSince } from "../shared/TimeSince";
import type { Column } from "../shared/RowList";
import { merged, sorted } from "../shared/search";
import { stateOf } from "./form";
import { siteTunnelsQuery, type End, type SiteTunnel, type SiteTunnelOrder } from "./queries";

export function SiteTunnelListPage() {
  const filter = sorted(useSearch({ from: "/frame/site-tunnels" }), "name");
  const navigate = useNavigate({ from: "/site-tunnels" });
  const mayWrite = useMayWrite("site-tunnels");
  const show = (change: Partial<typeof filter>) =>
    void navigate({ search: merged(filter, change), replace: true });
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
      search={{ q: filter.q, onSearch: (q) => show({ q }), places: t`in its name, gateways or resources` }}
      options={siteTunnelsQuery(filter)}
      keyOf={({ name }) => name}
      columns={COLUMNS}
      sorting={{
        by: filter.sort,
        onSort: (sort) => show({ sort: sort as SiteTunnelOrder }),
      }}
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
    sort: "name",
    cell: ({ name, ends }) => (
      <Stack gap={0}>
        <AnchorLink to="/site-tunnels/of/$name" params={{ name }} fw={600} className="name" c="bright">
          <Name>{name}</Name>
        </AnchorLink>
        <Text size="xs" c="dimmed" className="name">
          <Name>{ends.map(({ gateway }) => gateway).join(" ↔ ")}</Name>
        </Text>
      </Stack>
    ),
  },
  {
    title: msg`State`,
    sort: "state",
    cell: (tunnel) => {
      const { word, colour } = stateOf(tunnel);
      return (
        <>
          <Badge variant="light" color={colour} tt="none">
            {word}
          </Badge>
          {tunnel.reason !== "" && (
            <Text size="xs" c="dimmed" mt={2} className="name phrase">
              <Name>{tunnel.reason}</Name>
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
            <Name>{behind(end)}</Name>
          </Text>
        ))}
      </Stack>
    ),
  },
  {
    title: msg`Last rekey`,
    sort: "keyed",
    from: "sm",
    cell: ({ keyed_at }) => <TimeSince at={keyed_at} never={t`none yet`} />,
  },
];

function behind({ resources = [], targets = [] }: End): string {
  return [...resources, ...targets.map(shown)].join(", ");
}
