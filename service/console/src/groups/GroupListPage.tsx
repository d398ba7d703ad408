import { Button, Group as Row, Stack, Text } from "@mantine/core";
import { IconPlus, IconSearchOff, IconUsersGroup } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { useMayWrite } from "../session/session";
import { PageSwitch } from "../shared/PageSwitch";
import { Empty } from "../shared/Empty";
import { AnchorLink, ButtonLink } from "../shared/links";
import { PageHead } from "../shared/PageHead";
import { RowList, type Column } from "../shared/RowList";
import { SearchField } from "../shared/SearchField";
import { groupsQuery, type Group } from "./queries";

const NAMED = 8;

export function GroupListPage() {
  const filter = useSearch({ from: "/frame/groups" });
  const navigate = useNavigate({ from: "/groups" });
  const mayWrite = useMayWrite("groups");
  const add = mayWrite && (
    <ButtonLink to="/groups/new" leftSection={<IconPlus size={16} />}>
      Add a group
    </ButtonLink>
  );
  const search = (q: string) => void navigate({ search: q === "" ? {} : { q }, replace: true });
  return (
    <>
      <PageHead title="Groups" about="People who reach the same resources.">
        {add}
      </PageHead>
      <Stack gap="md">
        <Row>
          <PageSwitch at="/groups" pages={["/policies", "/groups"]} />
          <SearchField label="Search groups" value={filter.q ?? ""} onSearch={search} />
        </Row>
        <RowList
          label="Groups"
          options={groupsQuery(filter)}
          keyOf={({ name }) => name}
          columns={COLUMNS}
          empty={
            filter.q !== undefined ? (
              <Empty
                icon={<IconSearchOff />}
                title="No matching groups"
                action={
                  <Button variant="default" onClick={() => search("")}>
                    Show all
                  </Button>
                }
              >
                No group has this text in its name or members.
              </Empty>
            ) : (
              <Empty icon={<IconUsersGroup />} title="No groups yet" action={add}>
                Policies of a group apply to all its members, also to later ones.
              </Empty>
            )
          }
        />
      </Stack>
    </>
  );
}

const COLUMNS: Column<Group>[] = [
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
    cell: ({ members = [] }) => (
      <Text size="sm" className="name">
        {members.length === 0 ? "nobody" : members.slice(0, NAMED).join(", ")}
        {members.length > NAMED && ` and ${members.length - NAMED} more`}
      </Text>
    ),
  },
];
