import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Group, Text } from "@mantine/core";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { useMayWrite } from "../session/session";
import { ListPage } from "../shared/ListPage";
import { PageSwitch } from "../shared/PageSwitch";
import { AnchorLink, ButtonLink } from "../shared/links";
import type { Column } from "../shared/RowList";
import { inWords } from "./form";
import { policiesQuery, type Policy } from "./queries";

export function PolicyListPage() {
  const filter = useSearch({ from: "/frame/policies" });
  const navigate = useNavigate({ from: "/policies" });
  const mayWrite = useMayWrite("policies");
  return (
    <ListPage
      title={t`Policies`}
      about={t`Each policy permits people to reach resources under conditions.`}
      add={
        mayWrite && (
          <ButtonLink to="/policies/new" leftSection={<IconPlus size={16} />}>
            <Trans>Add a policy</Trans>
          </ButtonLink>
        )
      }
      before={<PageSwitch at="/policies" pages={["/policies", "/groups"]} />}
      search={{
        q: filter.q,
        onSearch: (q) => void navigate({ search: q === "" ? {} : { q }, replace: true }),
        places: t`in its name, people or resources`,
      }}
      options={policiesQuery(filter)}
      keyOf={({ name }) => name}
      columns={COLUMNS}
      empty={{
        icon: <IconKey />,
        title: t`No policies yet`,
        children: t`Without a policy, no resource can be reached. A policy permits a group or a person to reach resources.`,
      }}
    />
  );
}

const COLUMNS: Column<Policy>[] = [
  {
    title: msg`Policy`,
    cell: ({ name, enabled }) => (
      <Group gap="xs">
        <AnchorLink to="/policies/of/$name" params={{ name }} fw={550} size="sm" className="name">
          {name}
        </AnchorLink>
        {!enabled && (
          <Badge size="sm" color="gray" variant="light" tt="none">
            <Trans>off</Trans>
          </Badge>
        )}
      </Group>
    ),
  },
  {
    title: msg`Group or person`,
    cell: ({ group, user }) => (
      <Text size="sm" className="name">
        {group ?? user}
        <Text span inherit c="dimmed">
          {group == null ? " " + t`(person)` : " " + t`(group)`}
        </Text>
      </Text>
    ),
  },
  {
    title: msg`Resources`,
    cell: ({ resources }) => (
      <Text size="sm" className="name" lineClamp={2}>
        {resources.join(", ")}
      </Text>
    ),
  },
  {
    title: msg`Conditions`,
    from: "sm",
    cell: ({ conditions }) => (
      <Text size="sm" c="dimmed" className="name" lineClamp={2}>
        {inWords(conditions).join("; ") || t`always`}
      </Text>
    ),
  },
];
