import { Badge, Button, Group, Select, Stack, Text } from "@mantine/core";
import { IconPlus, IconSearchOff, IconWorld } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";

import { useGateways, useTunnels, type Gateway } from "../live/live";
import type { Rows } from "../live/rows";
import { useMayWrite } from "../session/session";
import { Empty } from "../shared/Empty";
import { AnchorLink, ButtonLink } from "../shared/links";
import { PageHead } from "../shared/PageHead";
import { RowList, type Column } from "../shared/RowList";
import { merged } from "../shared/search";
import { SearchField } from "../shared/SearchField";
import { resourcesQuery, type Resource, type ResourceOrder } from "./queries";
import { shown } from "./target";

export function ResourceListPage() {
  const filter = useSearch({ from: "/frame/resources" });
  const navigate = useNavigate({ from: "/resources" });
  const mayWrite = useMayWrite("resources");
  const gateways = useGateways().rows;
  const tunnels = useTunnels().rows;
  const open = useMemo(() => {
    const counted = new Map<string, number>();
    for (const { resource } of tunnels?.values() ?? [])
      counted.set(resource, (counted.get(resource) ?? 0) + 1);
    return counted;
  }, [tunnels]);

  const search = (change: typeof filter) => void navigate({ search: merged(filter, change), replace: true });
  const add = mayWrite && (
    <ButtonLink to="/resources/new" leftSection={<IconPlus size={16} />}>
      Add a resource
    </ButtonLink>
  );
  const isFiltered = filter.q !== undefined || filter.gateway !== undefined;
  return (
    <>
      <PageHead title="Resources" about="Names that people can open, and the addresses behind them.">
        {add}
      </PageHead>
      <Group mb="md">
        <SearchField label="Search resources" value={filter.q ?? ""} onSearch={(q) => search({ q })} />
        <Select
          aria-label="Filter by gateway"
          placeholder="All gateways"
          clearable
          w={{ base: "100%", xs: 200 }}
          data={[...(gateways?.keys() ?? [])]}
          value={filter.gateway ?? null}
          onChange={(gateway) => search({ gateway: gateway ?? "" })}
          clearButtonProps={{ "aria-label": "Every gateway" }}
        />
      </Group>
      <RowList
        label="Resources"
        options={resourcesQuery(filter)}
        keyOf={({ name }) => name}
        columns={columns(gateways, open)}
        sorting={{ by: filter.sort ?? "fqdn", onSort: (sort) => search({ sort: sort as ResourceOrder }) }}
        empty={
          isFiltered ? (
            <Empty
              icon={<IconSearchOff />}
              title="No matching resources"
              action={
                <Button variant="default" onClick={() => search({ q: "", gateway: "" })}>
                  Show all
                </Button>
              }
            >
              No resource has this text in its name, address or owner.
            </Empty>
          ) : (
            <Empty icon={<IconWorld />} title="No resources yet" action={add}>
              A resource is an internal name, such as wiki.corp.example. Whoever may reach it just opens it:
              the tunnel comes by itself.
            </Empty>
          )
        }
      />
    </>
  );
}

function columns(gateways: Rows<Gateway> | null, open: Map<string, number>): Column<Resource>[] {
  return [
    {
      title: "Name",
      sort: "fqdn",
      cell: ({ name, display_name, targets }) => (
        <Stack gap={0}>
          <AnchorLink to="/resources/of/$name" params={{ name }} fw={550} className="name" c="bright">
            {display_name}
          </AnchorLink>
          <Text size="xs" c="dimmed" className="mono">
            {targets.slice(0, 2).map(shown).join(" · ")}
            {targets.length > 2 && ` and ${targets.length - 2} more`}
          </Text>
        </Stack>
      ),
    },
    {
      title: "Gateways",
      wide: true,
      cell: ({ gateways: names }) => (
        <Group gap={6}>
          {names.map((name) => (
            <Badge key={name} variant="light" tt="none" fw={500} color={colourOf(gateways?.get(name))}>
              {name}
            </Badge>
          ))}
        </Group>
      ),
    },
    {
      title: "Owner",
      wide: true,
      sort: "owner",
      cell: ({ owner }) => (
        <Text size="sm" className="name">
          {owner}
        </Text>
      ),
    },
    {
      title: "Tunnels",
      align: "right",
      cell: ({ name }) => <Text size="sm">{open.get(name) ?? 0}</Text>,
    },
  ];
}

function colourOf(gateway: Gateway | undefined): string {
  if (gateway === undefined) return "gray";
  if (gateway.state === "offline") return "red";
  return gateway.draining_since === null ? "culvert" : "yellow";
}
