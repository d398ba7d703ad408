import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Text, VisuallyHidden } from "@mantine/core";
import { useState } from "react";

import type { Rate, Tunnel } from "../live/live";
import type { Rows } from "../live/rows";
import { useMayWrite } from "../session/session";
import { Name } from "../shared/Name";
import { AnchorLink } from "../shared/links";
import { LiveList, type Column } from "../shared/RowList";
import { useNow } from "../shared/useNow";
import { age, rate } from "../shared/words";
import { CloseTunnel } from "./CloseTunnel";

/** On a narrow screen the gateway stands below the name, and the outer address is absent. */
export function TunnelTable({
  tunnels,
  rates,
  ofOneGateway = false,
  shownMax = Infinity,
}: {
  tunnels: readonly Tunnel[];
  rates?: Rows<Rate>;
  /** The page is about the gateway of all these tunnels. */
  ofOneGateway?: boolean;
  shownMax?: number;
}) {
  const mayClose = useMayWrite("tunnels");
  // The newest ones first.
  const [by, onSort] = useState("open");
  return (
    <LiveList
      label={t`Tunnels`}
      rows={tunnels}
      keyOf={({ id }) => id}
      sorting={{ by, onSort }}
      shownMax={shownMax}
      columns={[
        ...columns(!ofOneGateway),
        ...(rates === undefined ? [] : [rateColumn(rates)]),
        openFor(),
        ...(mayClose ? [closeColumn()] : []),
      ]}
    />
  );
}

const calledBy = ({ user, user_display_name }: Tunnel): string => user_display_name ?? user;

const columns = (withGateway: boolean): Column<Tunnel>[] => [
  {
    title: t`Person`,
    sort: "person",
    compare: (a, b) => calledBy(a).localeCompare(calledBy(b)),
    cell: (tunnel) => (
      <Text size="sm" className="name">
        <AnchorLink to="/people/of/$name" params={{ name: tunnel.user }} inherit>
          <bdi>
            <Name>{calledBy(tunnel)}</Name>
          </bdi>
        </AnchorLink>{" "}
        <Text span c="dimmed" inherit>
          <Name>{t`on ${tunnel.device}`}</Name>
        </Text>
      </Text>
    ),
  },
  {
    title: t`Name`,
    sort: "name",
    compare: (a, b) => a.display_name.localeCompare(b.display_name),
    cell: (tunnel) => (
      <Text size="sm" className="name" component="div">
        <Name>{tunnel.display_name}</Name>{" "}
        {tunnel.legacy && (
          <Badge color="red" size="xs" variant="light">
            {tunnel.suite}
          </Badge>
        )}
        {withGateway && (
          <Text size="xs" hiddenFrom="sm">
            <Via tunnel={tunnel} />
          </Text>
        )}
      </Text>
    ),
  },
  ...(withGateway
    ? [
        {
          title: t`Gateway`,
          sort: "gateway",
          from: "sm" as const,
          compare: (a: Tunnel, b: Tunnel) => a.gateway.localeCompare(b.gateway),
          cell: (tunnel: Tunnel) => (
            <Text size="sm" className="name">
              <Via tunnel={tunnel} />
            </Text>
          ),
        },
      ]
    : []),
  {
    title: t`Outer address`,
    sort: "address",
    from: "md",
    compare: (a, b) => a.peer_address.localeCompare(b.peer_address, undefined, { numeric: true }),
    cell: ({ peer_address }) => <span className="mono">{peer_address}</span>,
  },
];

function rateColumn(rates: Rows<Rate>): Column<Tunnel> {
  const bytes = ({ id }: Tunnel): number | null => {
    const of = rates.get(id);
    return of === undefined ? null : of.from_device + of.to_device;
  };
  return {
    title: t`Rate`,
    sort: "rate",
    from: "sm",
    align: "right",
    compare: (a, b) => (bytes(a) ?? -1) - (bytes(b) ?? -1),
    cell: (tunnel) => {
      const carried = bytes(tunnel);
      return carried === null ? "–" : rate(carried);
    },
  };
}

const openFor = (): Column<Tunnel> => ({
  title: t`Open for`,
  sort: "open",
  align: "right",
  compare: (a, b) => Date.parse(b.opened_at) - Date.parse(a.opened_at),
  cell: ({ opened_at }) => <Age at={opened_at} />,
});

function Age({ at }: { at: string }) {
  return age(Date.parse(at), useNow());
}

const closeColumn = (): Column<Tunnel> => ({
  title: t`Actions`,
  head: () => (
    <VisuallyHidden>
      <Trans>Actions</Trans>
    </VisuallyHidden>
  ),
  align: "right",
  cell: (tunnel) => <CloseTunnel tunnel={tunnel} />,
});

function Via({ tunnel: { gateway, moved_from } }: { tunnel: Tunnel }) {
  return (
    <>
      <Name>{gateway}</Name>
      {moved_from !== null && (
        <Text span c="dimmed" inherit>
          {" " + t`from ${moved_from}`}
        </Text>
      )}
    </>
  );
}
