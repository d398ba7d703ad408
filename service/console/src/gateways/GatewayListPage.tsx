import { msg, plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Group, Text } from "@mantine/core";
import { IconPlus, IconServer2 } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { useGateways, type Gateway } from "../live/live";
import { useMayWrite } from "../session/session";
import { Name } from "../shared/Name";
import { PageSwitch } from "../shared/PageSwitch";
import { EmptyList, NoMatch } from "../shared/EmptyList";
import { AnchorLink, ButtonLink } from "../shared/links";
import { TimeSince } from "../shared/TimeSince";
import { PageHead } from "../shared/PageHead";
import { LiveList, type Column } from "../shared/RowList";
import { Loading } from "../shared/Loading";
import { merged, sorted } from "../shared/search";
import { SearchField } from "../shared/SearchField";
import { inSentence } from "../shared/words";
import { Software } from "./Software";
import { OpenLinks } from "./OpenLinks";
import { driftOf, silentOf, stateOf, type GatewayOrder } from "./state";

export function GatewayListPage() {
  const filter = sorted(useSearch({ from: "/frame/gateways" }), "name");
  const navigate = useNavigate({ from: "/gateways" });
  const { rows } = useGateways();
  const mayWrite = useMayWrite("gateways");
  const add = mayWrite && (
    <ButtonLink to="/gateways/join" leftSection={<IconPlus size={16} />}>
      <Trans>Add a gateway</Trans>
    </ButtonLink>
  );
  const show = (change: Partial<typeof filter>) =>
    void navigate({ search: merged(filter, change), replace: true });
  const gateways = [...(rows?.values() ?? [])].sort((a, b) => a.name.localeCompare(b.name));
  const kind = inSentence(t`Gateways`);
  const found = gateways.filter((gateway) => hasText(gateway, filter.q ?? ""));
  return (
    <>
      <PageHead title={t`Gateways`} about={t`Gateways end tunnels at your network. Their state is live.`}>
        {gateways.length > 0 && add}
      </PageHead>
      <Group mb="md">
        <PageSwitch at="/gateways" pages={["/gateways", "/site-tunnels"]} />
        <SearchField label={t`Search ${kind}`} value={filter.q ?? ""} onSearch={(q) => show({ q })} />
      </Group>
      {rows === null ? (
        <Loading forWhat={t`gateways`} />
      ) : gateways.length === 0 ? (
        <EmptyList icon={<IconServer2 />} title={t`No gateway yet`} action={add}>
          <Trans>
            A gateway carries tunnels into your network. Add one; it shows here as soon as it answers.
          </Trans>
        </EmptyList>
      ) : found.length === 0 ? (
        <NoMatch
          kind={kind}
          places={t`in its name, its addresses or its state`}
          onShowAll={() => show({ q: "" })}
        />
      ) : (
        <LiveList
          label={t`Gateways`}
          rows={found}
          columns={COLUMNS}
          keyOf={({ name }) => name}
          sorting={{
            by: filter.sort,
            onSort: (sort) => show({ sort: sort as GatewayOrder }),
          }}
        />
      )}
      {mayWrite && <OpenLinks />}
    </>
  );
}

function hasText(gateway: Gateway, typed: string): boolean {
  const { name, address, address6, public_address, public_address6, reason } = gateway;
  const texts = [name, address, address6, public_address, public_address6, stateOf(gateway).word, reason];
  return texts.some((text) => text?.toLowerCase().includes(typed.toLowerCase()));
}

// In place of the time of a check that has not happened.
const EVER = new Date(0).toISOString();

const COLUMNS: Column<Gateway>[] = [
  {
    title: msg`Name`,
    sort: "name",
    compare: (a, b) => a.name.localeCompare(b.name),
    cell: ({ name, address }) => (
      <>
        <AnchorLink to="/gateways/of/$name" params={{ name }} fw={600} c="bright" className="name">
          <Name>{name}</Name>
        </AnchorLink>
        <Text size="xs" c="dimmed" className="mono">
          {address}
        </Text>
      </>
    ),
  },
  {
    title: msg`State`,
    sort: "state",
    compare: (a, b) => stateOf(a).word.localeCompare(stateOf(b).word),
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
            <Text size="xs" c="dimmed" mt={2} className="name phrase">
              <Name>{gateway.reason}</Name>
            </Text>
          )}
        </>
      );
    },
  },
  {
    title: msg`Last checked`,
    sort: "checked",
    compare: (a, b) => Date.parse(a.reconciled_at ?? EVER) - Date.parse(b.reconciled_at ?? EVER),
    from: "sm",
    cell: ({ reconciled_at }) => <TimeSince at={reconciled_at} />,
  },
  { title: msg`Software`, from: "sm", cell: (gateway) => <Software of={gateway} /> },
  { title: msg`Switch entries`, from: "md", cell: driftOf },
  {
    title: msg`Tunnels`,
    sort: "tunnels",
    compare: (a, b) => a.tunnels - b.tunnels,
    align: "right",
    cell: ({ tunnels }) => tunnels,
  },
];
