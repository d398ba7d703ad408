import { Badge, Button, Group, Stack, Text } from "@mantine/core";
import { IconKey, IconPlus, IconSearchOff } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { useMayWrite } from "../session/session";
import { PageSwitch } from "../shared/PageSwitch";
import { Empty } from "../shared/Empty";
import { AnchorLink, ButtonLink } from "../shared/links";
import { PageHead } from "../shared/PageHead";
import { RowList, type Column } from "../shared/RowList";
import { SearchField } from "../shared/SearchField";
import { inWords } from "./form";
import { policiesQuery, type Policy } from "./queries";

export function PolicyListPage() {
  const filter = useSearch({ from: "/frame/policies" });
  const navigate = useNavigate({ from: "/policies" });
  const mayWrite = useMayWrite("policies");
  const add = mayWrite && (
    <ButtonLink to="/policies/new" leftSection={<IconPlus size={16} />}>
      Add a policy
    </ButtonLink>
  );
  const search = (q: string) => void navigate({ search: q === "" ? {} : { q }, replace: true });
  return (
    <>
      <PageHead title="Policies" about="Each policy permits people to reach resources under conditions.">
        {add}
      </PageHead>
      <Stack gap="md">
        <Group>
          <PageSwitch at="/policies" pages={["/policies", "/groups"]} />
          <SearchField label="Search policies" value={filter.q ?? ""} onSearch={search} />
        </Group>
        <RowList
          label="Policies"
          options={policiesQuery(filter)}
          keyOf={({ name }) => name}
          columns={COLUMNS}
          empty={
            filter.q !== undefined ? (
              <Empty
                icon={<IconSearchOff />}
                title="No matching policies"
                action={
                  <Button variant="default" onClick={() => search("")}>
                    Show all
                  </Button>
                }
              >
                No policy has this text in its name, people or resources.
              </Empty>
            ) : (
              <Empty icon={<IconKey />} title="No policies yet" action={add}>
                Without a policy, no resource can be reached. A policy permits a group or a person to reach
                resources.
              </Empty>
            )
          }
        />
      </Stack>
    </>
  );
}

const COLUMNS: Column<Policy>[] = [
  {
    title: "Policy",
    cell: ({ name, enabled }) => (
      <Group gap="xs">
        <AnchorLink to="/policies/of/$name" params={{ name }} fw={550} size="sm" className="name">
          {name}
        </AnchorLink>
        {!enabled && (
          <Badge size="sm" color="gray" variant="light" tt="none">
            off
          </Badge>
        )}
      </Group>
    ),
  },
  {
    title: "Who",
    cell: ({ group, user }) => (
      <Text size="sm" className="name">
        {group ?? user}
        <Text span inherit c="dimmed">
          {group == null ? " (person)" : " (group)"}
        </Text>
      </Text>
    ),
  },
  {
    title: "May reach",
    cell: ({ resources }) => (
      <Text size="sm" className="name" lineClamp={2}>
        {resources.join(", ")}
      </Text>
    ),
  },
  {
    title: "While",
    wide: true,
    cell: ({ conditions }) => (
      <Text size="sm" c="dimmed" className="name" lineClamp={2}>
        {inWords(conditions).join("; ") || "always"}
      </Text>
    ),
  },
];
