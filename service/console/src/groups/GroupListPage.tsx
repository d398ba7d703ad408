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
      title="Groups"
      about="People who reach the same resources."
      add={
        mayWrite && (
          <ButtonLink to="/groups/new" leftSection={<IconPlus size={16} />}>
            Add a group
          </ButtonLink>
        )
      }
      before={<PageSwitch at="/groups" pages={["/policies", "/groups"]} />}
      search={{
        q: filter.q,
        onSearch: (q) => void navigate({ search: q === "" ? {} : { q }, replace: true }),
        places: "in its name or members",
      }}
      options={groupsQuery(filter)}
      keyOf={({ name }) => name}
      columns={COLUMNS}
      empty={{
        icon: <IconUsersGroup />,
        title: "No groups yet",
        children: "Policies of a group apply to all its members, also to later ones.",
      }}
    />
  );
}

const COLUMNS: Column<GroupSummary>[] = [
  {
    title: "Group",
    cell: ({ name }) => (
      <AnchorLink to="/groups/of/$name" params={{ name }} fw={550} size="sm">
        {name}
      </AnchorLink>
    ),
  },
  {
    title: "Members",
    cell: ({ members: { count, first } }) => (
      <Text size="sm" className="name">
        {count === 0 ? "nobody" : first.slice(0, NAMED).join(", ")}
        {count > NAMED && ` and ${(count - NAMED).toLocaleString("en")} more`}
      </Text>
    ),
  },
];
