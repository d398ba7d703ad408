import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Checkbox, Select, Stack, Table, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { say, sayOptions } from "../locale/language";
import { api, tagged } from "../api/client";
import { ProblemError } from "../api/problem";
import { sessionQuery, useMayWrite } from "../session/session";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { ConflictDialog } from "../shared/ConflictDialog";
import { NoMatch } from "../shared/EmptyList";
import { Name } from "../shared/Name";
import { TimeSince } from "../shared/TimeSince";
import { ProblemNote } from "../shared/ProblemNote";
import { RowList, type Column } from "../shared/RowList";
import { SearchField } from "../shared/SearchField";
import { inSentence, moment, ROLES, sayRole } from "../shared/words";
import { SettingsCard } from "./SettingsCard";
import { AdministratorInviteDialog } from "./AdministratorInviteDialog";
import {
  adminsQuery,
  invitationsQuery,
  tokensByQuery,
  useAdministratorFilter,
  useDialog,
  type Administrator,
  type Role,
} from "./queries";

type Doing = { what: "role"; of: Administrator; role: Role } | { what: "delete"; of: Administrator };

export function AdministratorsTab() {
  const mayWrite = useMayWrite("admins");
  const { filter, onSearch, sorting } = useAdministratorFilter();
  const kind = inSentence(t`Administrators`);
  const [dialog, setDialog] = useDialog();
  const [doing, setDoing] = useState<Doing | null>(null);
  const done = () => setDoing(null);
  return (
    <Stack>
      <SettingsCard
        isList
        title={t`Administrators`}
        about={ROLES.map(({ label, about }) => `${say(label)}: ${say(about)}.`).join(" ")}
        action={
          mayWrite && (
            <Button onClick={() => setDialog("invite")}>
              <Trans>Invite an administrator</Trans>
            </Button>
          )
        }
      >
        <Stack>
          <SearchField label={t`Search ${kind}`} value={filter.q ?? ""} onSearch={onSearch} />
          <RowList
            label={t`Administrators`}
            options={adminsQuery(filter)}
            sorting={sorting}
            keyOf={({ name }) => name}
            columns={[...COLUMNS, roleColumn(mayWrite, setDoing), ...(mayWrite ? [endColumn(setDoing)] : [])]}
            empty={
              filter.q === undefined ? (
                <Text size="sm">
                  <Trans>Nobody has an account yet; the controller’s own token administers it.</Trans>
                </Text>
              ) : (
                <NoMatch kind={kind} places={t`in its name`} onShowAll={() => onSearch("")} />
              )
            }
          />
        </Stack>
      </SettingsCard>
      <OpenInvitations />
      {dialog === "invite" && mayWrite && <AdministratorInviteDialog onClose={() => setDialog(undefined)} />}
      {doing?.what === "role" && <ChangeRole {...doing} onClose={done} />}
      {doing?.what === "delete" && <DeleteAdministrator of={doing.of} onClose={done} />}
    </Stack>
  );
}

const COLUMNS: Column<Administrator>[] = [
  {
    title: msg`Name`,
    sort: "name",
    cell: ({ name }) => (
      <Text size="sm" fw={600} className="name">
        <Name>{name}</Name>
      </Text>
    ),
  },
  {
    title: msg`First sign-in`,
    sort: "confirmed",
    from: "sm",
    cell: ({ confirmed_at }) => <TimeSince at={confirmed_at} />,
  },
];

function roleColumn(mayWrite: boolean, setDoing: (doing: Doing) => void): Column<Administrator> {
  return {
    title: t`Role`,
    sort: "role",
    cell: (of) =>
      mayWrite ? (
        <Select
          size="xs"
          w={120}
          aria-label={t`Role of ${of.name}`}
          allowDeselect={false}
          data={sayOptions(ROLES)}
          value={of.role}
          onChange={(role) => role !== null && role !== of.role && setDoing({ what: "role", of, role })}
        />
      ) : (
        <Text size="sm">{sayRole(of.role)}</Text>
      ),
  };
}

function endColumn(setDoing: (doing: Doing) => void): Column<Administrator> {
  return {
    title: t`Actions`,
    align: "right",
    cell: (of) => (
      <Button
        size="compact-sm"
        variant="subtle"
        color="red"
        aria-label={t`Delete ${of.name}`}
        onClick={() => setDoing({ what: "delete", of })}
      >
        <Trans>Delete</Trans>
      </Button>
    ),
  };
}

/** Changes a role, unless another owner has changed it meanwhile. */
function ChangeRole({
  of: { name, role: before },
  role,
  onClose,
}: {
  of: Administrator;
  role: Role;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const after = sayRole(role);
  const [keeps, setKeeps] = useState(false);
  const found = useQuery({
    queryKey: ["admins", "one", name],
    queryFn: async () => tagged(await api.GET("/api/v1/admins/{name}", { params: { path: { name } } })),
  });
  const change = useMutation({
    mutationFn: async () => {
      const params = { path: { name }, header: { "if-match": found.data?.etag ?? "" } };
      await api.PUT("/api/v1/admins/{name}/role", { params, body: { role, keep_tokens: keeps } });
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["admins"] });
      notifications.show({ message: t`The role of ${name} is ${after} now` });
      onClose();
    },
    onError: (error) => {
      if (error instanceof ProblemError && error.reason === "VERSION_STALE") void found.refetch();
    },
  });
  // Another owner has changed the role.
  if (found.data && found.data.row.role !== before && !change.isPending)
    return (
      <ConflictDialog
        opened
        what={name}
        mine={{ [t`Role`]: sayRole(role) }}
        theirs={{ [t`Role`]: sayRole(found.data.row.role) }}
        onMine={() => change.mutate()}
        onTheirs={() => void queries.invalidateQueries({ queryKey: ["admins"] }).then(onClose)}
        onClose={onClose}
      />
    );
  const rights = ROLES.filter(({ value }) => value === role).map(({ about }) => say(about));
  return (
    <ConfirmDialog
      onClose={onClose}
      title={t`Give ${name} the role ${after}?`}
      act={t`Change the role`}
      keep={t`Leave it as it is`}
      harmless
      mutation={change}
    >
      {found.error && <ProblemNote error={found.error} />}
      <Text size="sm">
        <Trans>
          From {sayRole(before)} to {after}: {rights}. It applies from their next request.
        </Trans>
      </Text>
      {before === "owner" && <KeepTokens of={name} keeps={keeps} onChange={setKeeps} />}
    </ConfirmDialog>
  );
}

/** An owner may have copied the tokens that the owner made: they end with the owner, unless another owner keeps them. */
function KeepTokens({
  of,
  keeps,
  onChange,
}: {
  of: string;
  keeps: boolean;
  onChange: (keeps: boolean) => void;
}) {
  const tokens = useQuery(tokensByQuery(of)).data ?? [];
  if (tokens.length === 0) return null;
  return (
    <Stack gap="xs">
      <Text size="sm">
        <Trans>
          These API tokens that {of} made end too:{" "}
          <Text span fw={600} className="name">
            {tokens.map(({ name }) => name).join(", ")}
          </Text>
        </Trans>
      </Text>
      <Checkbox
        label={t`Keep them`}
        description={t`For programs that need them until they have new ones`}
        checked={keeps}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
    </Stack>
  );
}

function OpenInvitations() {
  const queries = useQueryClient();
  const mayWrite = useMayWrite("admins");
  const found = useQuery(invitationsQuery).data ?? [];
  const withdraw = useMutation({
    mutationFn: (id: string) =>
      api.DELETE("/api/v1/admins/invitations/{invitation_id}", { params: { path: { invitation_id: id } } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: invitationsQuery.queryKey }),
  });
  if (found.length === 0) return null;
  return (
    <SettingsCard title={t`Open invitations`} about={t`A person with the link makes the account.`}>
      {withdraw.error && <ProblemNote error={withdraw.error} />}
      <Table aria-label={t`Open invitations`}>
        <Table.Tbody>
          {found.map(({ id, role, created_by, expires_at }, at) => (
            <Table.Tr key={id}>
              <Table.Td>
                <Text size="sm" fw={600}>
                  {sayRole(role)}
                </Text>
                <Text size="xs" c="dimmed" className="name">
                  <Trans>by {created_by ?? "culvert-controller init"}</Trans>
                </Text>
              </Table.Td>
              <Table.Td>
                <Text size="sm" c="dimmed">
                  <Trans>until {moment(expires_at)}</Trans>
                </Text>
              </Table.Td>
              <Table.Td ta="right">
                {mayWrite && (
                  <Button
                    size="compact-sm"
                    variant="subtle"
                    color="red"
                    aria-label={t`Withdraw invitation ${at + 1}`}
                    loading={withdraw.isPending}
                    onClick={() => withdraw.mutate(id)}
                  >
                    <Trans>Withdraw</Trans>
                  </Button>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </SettingsCard>
  );
}

function DeleteAdministrator({ of: { name }, onClose }: { of: Administrator; onClose: () => void }) {
  const queries = useQueryClient();
  const [keeps, setKeeps] = useState(false);
  const session = useQuery(sessionQuery).data;
  const remove = useMutation({
    mutationFn: () =>
      api.DELETE("/api/v1/admins/{name}", { params: { path: { name }, query: { keep_tokens: keeps } } }),
    onSuccess: async () => {
      notifications.show({ message: t`${name} is no longer an administrator` });
      if (session?.name === name) queries.setQueryData(sessionQuery.queryKey, null);
      await queries.invalidateQueries({ queryKey: ["admins"] });
      onClose();
    },
  });
  return (
    <ConfirmDialog onClose={onClose} title={t`Delete ${name}?`} act={t`Delete ${name}`} mutation={remove}>
      <Text size="sm">
        {session?.name === name && <Trans>That is you.</Trans>}{" "}
        <Trans>
          Ends their sessions, their passkeys and the invitations that they made. This cannot be undone, but
          they can be invited again.
        </Trans>
      </Text>
      <KeepTokens of={name} keeps={keeps} onChange={setKeeps} />
    </ConfirmDialog>
  );
}
