import { msg, plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Text } from "@mantine/core";
import { IconPlus, IconUsersGroup } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { useMayWrite } from "../session/session";
import { AnchorLink, ButtonLink } from "../shared/links";
import { ListPage } from "../shared/ListPage";
import { PageSwitch } from "../shared/PageSwitch";
import type { Column } from "../shared/RowList";
import { groupsQuery, type GroupSummary } from "./queries";

const NAMED = 8;

export function GroupListPage() {
  const filter = useSearch({ from: "/frame/groups" });
  const navigate = useNavigate({ from: "/groups" });
  const mayWrite = useMayWrite("groups");
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
      before={<PageSwitch at="/groups" pages={["/policies", "/groups"]} />}
      search={{
        q: filter.q,
        onSearch: (q) => void navigate({ search: q === "" ? {} : { q }, replace: true }),
        places: t`in its name or members`,
      }}
      options={groupsQuery(filter)}
      keyOf={({ name }) => name}
      columns={COLUMNS}
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
    cell: ({ name }) => (
      <AnchorLink to="/groups/of/$name" params={{ name }} fw={550} size="sm">
        {name}
      </AnchorLink>
    ),
  },
  {
    title: msg`Members`,
    cell: ({ members: { count, first } }) => (
      <Text size="sm" className="name">
        {count === 0 ? t`nobody` : first.slice(0, NAMED).join(", ")}
        {count > NAMED && " " + plural(count - NAMED, { other: "and # more" })}
      </Text>
    ),
  },
];
