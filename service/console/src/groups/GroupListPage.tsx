import { msg, plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Text } from "@mantine/core";
import { IconPlus, IconUsersGroup } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { useMayWrite } from "../session/session";
import { Name } from "../shared/Name";
import { AnchorLink, ButtonLink } from "../shared/links";
import { ListPage } from "../shared/ListPage";
import { inFull } from "../shared/PersonName";
import { PEOPLE_PAGES, PageSwitch } from "../shared/PageSwitch";
import type { Column } from "../shared/RowList";
import { merged, sorted } from "../shared/search";
import { groupsQuery, type GroupOrder, type GroupSummary } from "./queries";

const NAMED = 8;

export function GroupListPage() {
  const filter = sorted(useSearch({ from: "/frame/groups" }), "name");
  const navigate = useNavigate({ from: "/groups" });
  const mayWrite = useMayWrite("groups");
  const show = (change: Partial<typeof filter>) =>
    void navigate({ search: (before) => merged(before, change), replace: true });
  return (
    <ListPage
      title={t`Groups`}
      about={t`People who reach the same resources.`}
      add={
        mayWrite && (
          <ButtonLink to="/groups/new" leftSection={<IconPlus size={16} />}>
            <Trans>Add a group</Trans>
          </ButtonLink>
        )
      }
      before={<PageSwitch at="/groups" pages={PEOPLE_PAGES} />}
      search={{
        q: filter.q,
        onSearch: (q) => show({ q }),
        places: t`in its name or members`,
      }}
      options={groupsQuery(filter)}
      keyOf={({ name }) => name}
      columns={COLUMNS}
      sorting={{ by: filter.sort, onSort: (sort) => show({ sort: sort as GroupOrder }) }}
      empty={{
        icon: <IconUsersGroup />,
        title: t`No groups yet`,
        children: t`Policies of a group apply to all its members, also to later ones.`,
      }}
    />
  );
}

const COLUMNS: Column<GroupSummary>[] = [
  {
    title: msg`Group`,
    sort: "name",
    cell: ({ name }) => (
      <AnchorLink to="/groups/of/$name" params={{ name }} fw={600} size="sm" className="name">
        <Name>{name}</Name>
      </AnchorLink>
    ),
  },
  {
    title: msg`Members`,
    sort: "members",
    cell: ({ members: { count, first, display_names } }) => (
      <Text size="sm" className="name">
        <Name>
          {count === 0
            ? t`nobody`
            : first
                .slice(0, NAMED)
                .map((name) => inFull(name, display_names[name]))
                .join(", ")}
        </Name>
        {count > NAMED && " " + plural(count - NAMED, { other: "and # more" })}
      </Text>
    ),
  },
];
