import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Group, Select, Stack, Text } from "@mantine/core";
import { IconPlus, IconWorld } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { stateOf } from "../gateways/state";
import { useGateways, useTunnelsBy, type Gateway, type Tunnel } from "../live/live";
import type { Rows } from "../live/rows";
import { useMayWrite } from "../session/session";
import { Name } from "../shared/Name";
import { AnchorLink, ButtonLink } from "../shared/links";
import type { Column } from "../shared/RowList";
import { ListPage } from "../shared/ListPage";
import { merged } from "../shared/search";
import { resourcesQuery, type Resource, type ResourceOrder } from "./queries";
import { shown } from "./target";

export function ResourceListPage() {
  const filter = useSearch({ from: "/frame/resources" });
  const navigate = useNavigate({ from: "/resources" });
  const mayWrite = useMayWrite("resources");
  const gateways = useGateways().rows;
  const tunnels = useTunnelsBy("resource");
  const search = (change: typeof filter) => void navigate({ search: merged(filter, change), replace: true });
  return (
    <ListPage
      title={t`Resources`}
      about={t`Names that people can open, and the addresses behind them.`}
      add={
        mayWrite && (
          <ButtonLink to="/resources/new" leftSection={<IconPlus size={16} />}>
            <Trans>Add a resource</Trans>
          </ButtonLink>
        )
      }
      search={{
        q: filter.q,
        onSearch: (q) => search({ q }),
        places: t`in its name, address or owner`,
        isFiltered: filter.gateway !== undefined,
        onShowAll: () => search({ q: "", gateway: "" }),
      }}
      after={
        <Select
          aria-label={t`Filter by gateway`}
          placeholder={t`All gateways`}
          clearable
          w={{ base: "100%", xs: 200 }}
          data={[...(gateways?.keys() ?? [])]}
          value={filter.gateway ?? null}
          onChange={(gateway) => search({ gateway: gateway ?? "" })}
          clearButtonProps={{ "aria-label": t`Every gateway` }}
        />
      }
      options={resourcesQuery(filter)}
      keyOf={({ name }) => name}
      columns={columns(gateways, tunnels)}
      sorting={{ by: filter.sort ?? "fqdn", onSort: (sort) => search({ sort: sort as ResourceOrder }) }}
      empty={{
        icon: <IconWorld />,
        title: t`No resources yet`,
        children: t`A resource is an internal name, such as wiki.corp.example. People with access open the name; the tunnel opens by itself.`,
      }}
    />
  );
}

function columns(
  gateways: Rows<Gateway> | null,
  tunnels: ReadonlyMap<string, readonly Tunnel[]>,
): Column<Resource>[] {
  return [
    {
      title: t`Name`,
      sort: "fqdn",
      cell: ({ name, display_name, targets }) => (
        <Stack gap={0}>
          <AnchorLink to="/resources/of/$name" params={{ name }} fw={600} className="name" c="bright">
            <Name>{display_name}</Name>
          </AnchorLink>
          <Text size="xs" c="dimmed" className="mono">
            {targets.slice(0, 2).map(shown).join(" · ")}
            {targets.length > 2 && " " + plural(targets.length - 2, { other: "and # more" })}
          </Text>
        </Stack>
      ),
    },
    {
      title: t`Gateways`,
      from: "sm",
      cell: ({ gateways: names }) => (
        <Group gap={6}>
          {names.map((name) => {
            const gateway = gateways?.get(name);
            const state = gateway && stateOf(gateway);
            const text = state === undefined || state.colour === "culvert" ? name : `${name} · ${state.word}`;
            return (
              <Badge
                key={name}
                miw={0}
                title={text}
                variant="light"
                tt="none"
                fw={600}
                color={state?.colour ?? "gray"}
              >
                {text}
              </Badge>
            );
          })}
        </Group>
      ),
    },
    {
      title: t`Owner`,
      from: "sm",
      sort: "owner",
      cell: ({ owner }) => (
        <Text size="sm" className="name">
          <Name>{owner}</Name>
        </Text>
      ),
    },
    {
      title: t`Tunnels`,
      align: "right",
      cell: ({ name }) => <Text size="sm">{tunnels.get(name)?.length ?? 0}</Text>,
    },
  ];
}
