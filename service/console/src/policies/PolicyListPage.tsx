import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Box, Button, Chip, Group, Stack, Text } from "@mantine/core";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { useMayWrite } from "../session/session";
import { ListPage } from "../shared/ListPage";
import { Name } from "../shared/Name";
import { PersonName } from "../shared/PersonName";
import { PageSwitch, POLICY_PAGES } from "../shared/PageSwitch";
import { AnchorLink, ButtonLink } from "../shared/links";
import type { Column } from "../shared/RowList";
import { merged, sorted } from "../shared/search";
import { useNow } from "../shared/useNow";
import { inWords, lastUse } from "./form";
import { PolicyDeleteDialog } from "./PolicyDeleteDialog";
import { policiesQuery, type Policy } from "./queries";

export function PolicyListPage() {
  const filter = sorted(useSearch({ from: "/frame/policies" }), "name");
  const navigate = useNavigate({ from: "/policies" });
  const mayWrite = useMayWrite("policies");
  const queries = useQueryClient();
  const [deleting, setDeleting] = useState<Policy | null>(null);
  const show = (change: Partial<Record<keyof typeof filter, string>>) =>
    void navigate({ search: merged(filter, change as typeof filter), replace: true });
  return (
    <>
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
        before={<PageSwitch at="/policies" pages={POLICY_PAGES} />}
        search={{
          q: filter.q,
          onSearch: (q) => show({ q }),
          places: t`in its name, people or resources`,
          isFiltered: filter.use !== undefined,
          onShowAll: () => void navigate({ search: {}, replace: true }),
        }}
        after={
          <Chip
            checked={filter.use === "unused"}
            onChange={(isUnused) => show({ use: isUnused ? "unused" : "" })}
          >
            <Trans>Not used for 90 days</Trans>
          </Chip>
        }
        options={policiesQuery(filter)}
        keyOf={({ name }) => name}
        columns={columns(mayWrite ? setDeleting : null)}
        sorting={{ by: filter.sort, onSort: (sort) => show({ sort }) }}
        empty={{
          icon: <IconKey />,
          title: t`No policies yet`,
          children: t`Without a policy, no resource can be reached. A policy permits a group or a person to reach resources.`,
        }}
      />
      {deleting && (
        <PolicyDeleteDialog
          policy={deleting}
          onClose={() => setDeleting(null)}
          onDeleted={async () => {
            setDeleting(null);
            await queries.invalidateQueries({ queryKey: ["policies"] });
          }}
        />
      )}
    </>
  );
}

function LastUsed({ policy, onDelete }: { policy: Policy; onDelete: OnDelete }) {
  const now = useNow();
  const { name, usage } = policy;
  return (
    <Stack gap={4} align="flex-start">
      <Text size="sm" {...(!usage.is_unused && { c: "dimmed" })}>
        {lastUse(policy, now)}
      </Text>
      {usage.is_unused && onDelete !== null && (
        <Button
          size="compact-sm"
          variant="default"
          aria-label={t`Delete ${name}`}
          onClick={() => onDelete(policy)}
        >
          <Trans>Delete</Trans>
        </Button>
      )}
    </Stack>
  );
}

type OnDelete = ((policy: Policy) => void) | null;

/** `onDelete`: null where the person may not. */
const columns = (onDelete: OnDelete): Column<Policy>[] => [
  {
    title: msg`Policy`,
    sort: "name",
    cell: (policy) => (
      <Stack gap={4}>
        <Group gap="xs">
          <AnchorLink
            to="/policies/of/$name"
            params={{ name: policy.name }}
            fw={600}
            size="sm"
            className="name"
          >
            <Name>{policy.name}</Name>
          </AnchorLink>
          {!policy.enabled && (
            <Badge size="sm" color="gray" variant="light" tt="none">
              <Trans>off</Trans>
            </Badge>
          )}
        </Group>
        {policy.usage.is_unused && (
          <Box hiddenFrom="sm">
            <LastUsed policy={policy} onDelete={onDelete} />
          </Box>
        )}
      </Stack>
    ),
  },
  {
    title: msg`Group or person`,
    sort: "subject",
    cell: ({ group, user, user_display_name }) => (
      <Text size="sm" className="name">
        {group ?? <PersonName user={user ?? ""} displayName={user_display_name} />}
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
        <Name>{resources.join(", ")}</Name>
      </Text>
    ),
  },
  {
    title: msg`Conditions`,
    from: "sm",
    cell: ({ conditions }) => (
      <Text size="sm" c="dimmed" className="name" lineClamp={2}>
        <Name>{inWords(conditions).join("; ") || t`always`}</Name>
      </Text>
    ),
  },
  {
    title: msg`Last used`,
    sort: "last_used",
    from: "sm",
    cell: (policy) => <LastUsed policy={policy} onDelete={onDelete} />,
  },
];
