import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { ActionIcon, Badge, Button, Group, Table, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api } from "../api/client";
import { sessionQuery } from "../session/session";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { Name } from "../shared/Name";
import { TimeSince } from "../shared/TimeSince";
import { ProblemNote } from "../shared/ProblemNote";
import { day, sayRole, timeOfDay } from "../shared/words";
import { browserOf } from "./browser";
import { SettingsCard } from "./SettingsCard";
import { OwnAuthenticatorDialog } from "./OwnAuthenticatorDialog";
import { PasswordDialog } from "./PasswordDialog";
import { PasskeysCard } from "./PasskeysCard";
import { RecoveryCodesDialog } from "./RecoveryCodesDialog";
import { credentialsQuery } from "./queries";

type Doing = "password" | "authenticator" | "codes" | "without-codes" | "without-password" | null;

export function AccountTab() {
  const session = useQuery(sessionQuery).data;
  const credentials = useQuery(credentialsQuery).data;
  const [doing, setDoing] = useState<Doing>(null);
  const done = () => setDoing(null);
  if (!session) return null;
  return (
    <div className="cards">
      <SettingsCard title={session.name} about={t`Your role at this controller: ${sayRole(session.role)}.`} />
      {session.has_password && (
        <>
          <SettingsCard
            title={t`Password`}
            about={t`A new password ends your other sessions, recovery codes and open invitations, and removes the passkeys that you do not keep.`}
            action={
              <Group gap="xs">
                <Button variant="default" onClick={() => setDoing("password")}>
                  <Trans>Change password</Trans>
                </Button>
                {credentials && credentials.passkeys.length + credentials.identities.length > 0 && (
                  <Button variant="subtle" color="gray" onClick={() => setDoing("without-password")}>
                    <Trans>Remove password</Trans>
                  </Button>
                )}
              </Group>
            }
          />
          <SettingsCard
            title={t`Authenticator`}
            about={t`The app that shows your codes. A new authenticator replaces the old one, and has the effects of a new password.`}
            action={
              <Button variant="default" onClick={() => setDoing("authenticator")}>
                <Trans>Set up a new authenticator</Trans>
              </Button>
            }
          />
          <SettingsCard
            title={t`Recovery codes`}
            about={[
              t`A recovery code replaces a code once, for example after the authenticator is lost.`,
              left(credentials?.recovery_codes),
            ].join(" ")}
            action={
              <Group gap="xs">
                <Button variant="default" onClick={() => setDoing("codes")}>
                  <Trans>Make new codes</Trans>
                </Button>
                {credentials && credentials.recovery_codes > 0 && (
                  <Button variant="subtle" color="gray" onClick={() => setDoing("without-codes")}>
                    <Trans>Remove codes</Trans>
                  </Button>
                )}
              </Group>
            }
          />
        </>
      )}
      <PasskeysCard />
      <AtProvider />
      <Sessions />
      <MadeByYou />
      {doing === "password" && <PasswordDialog onClose={done} />}
      {doing === "authenticator" && <OwnAuthenticatorDialog onClose={done} />}
      {doing === "codes" && <RecoveryCodesDialog onClose={done} />}
      {doing === "without-codes" && <WithoutCodes onClose={done} />}
      {doing === "without-password" && <WithoutPassword onClose={done} />}
    </div>
  );
}

const left = (codes: number | undefined): string => {
  if (codes === undefined) return "";
  if (codes === 0) return t`You have none.`;
  return plural(codes, { one: "One is left.", other: "# are left." });
};

function WithoutPassword({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => api.DELETE("/api/v1/session/password"),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["account"] });
      await queries.invalidateQueries({ queryKey: sessionQuery.queryKey });
      onClose();
    },
  });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={t`Remove your password?`}
      act={t`Remove the password`}
      mutation={remove}
    >
      <Text size="sm">
        <Trans>
          This also removes the authenticator and the recovery codes. You then sign in with a passkey or at
          the provider; if you lose those, only an owner can invite you again.
        </Trans>
      </Text>
    </ConfirmDialog>
  );
}

function WithoutCodes({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => api.DELETE("/api/v1/session/recovery-codes"),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["account"] });
      onClose();
    },
  });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={t`Remove your recovery codes?`}
      act={t`Remove the codes`}
      mutation={remove}
    >
      <Text size="sm">
        <Trans>Without them and without a passkey, a lost authenticator locks you out.</Trans>
      </Text>
    </ConfirmDialog>
  );
}

/** Accounts at a provider of OpenID Connect. */
function AtProvider() {
  const queries = useQueryClient();
  const found = useQuery(credentialsQuery).data?.identities ?? [];
  const remove = useMutation({
    mutationFn: (id: string) =>
      api.DELETE("/api/v1/session/identities/{identity_id}", { params: { path: { identity_id: id } } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["account"] }),
  });
  if (found.length === 0) return null;
  return (
    <SettingsCard
      title={t`At your provider`}
      about={t`A person who signs in there under this name is signed in here.`}
    >
      {remove.error && <ProblemNote error={remove.error} />}
      <Table aria-label={t`At your provider`}>
        <Table.Tbody>
          {found.map(({ id, issuer, subject, created_at }) => (
            <Table.Tr key={id}>
              <Table.Td className="name">
                <Text size="sm" fw={600}>
                  <Name>{subject}</Name>
                </Text>
                <Text size="xs" c="dimmed">
                  <Name>{issuer}</Name>
                </Text>
              </Table.Td>
              <Table.Td>
                <TimeSince at={created_at} />
              </Table.Td>
              <Table.Td ta="right">
                <ActionIcon
                  variant="subtle"
                  color="gray"
                  aria-label={t`Remove ${subject}`}
                  loading={remove.isPending}
                  onClick={() => remove.mutate(id)}
                >
                  <IconTrash size={16} />
                </ActionIcon>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </SettingsCard>
  );
}

/** API tokens and invitations: they work without this account's session. */
function MadeByYou() {
  const found = useQuery(credentialsQuery).data;
  if (!found || found.tokens.length + found.invitations.length === 0) return null;
  const rows = [
    ...found.tokens.map(({ id, name, scopes, expires_at }) => ({
      id,
      what: t`API token ${name}`,
      about: scopes.join(", "),
      expires_at,
    })),
    ...found.invitations.map(({ id, role, expires_at }) => ({
      id,
      what: t`Invitation of an administrator`,
      about: role,
      expires_at,
    })),
  ];
  return (
    <SettingsCard
      title={t`Made by you`}
      about={t`API tokens stay valid when you change your password. Revoke tokens that you do not know under “API tokens”.`}
    >
      <Table aria-label={t`Made by you`}>
        <Table.Tbody>
          {rows.map(({ id, what, about, expires_at }) => (
            <Table.Tr key={id}>
              <Table.Td className="name">
                <Text size="sm" fw={600}>
                  <Name>{what}</Name>
                </Text>
                <Text size="xs" c="dimmed">
                  {about}
                </Text>
              </Table.Td>
              <Table.Td ta="right">
                <Text size="sm" c="dimmed">
                  <Trans>until {day(expires_at)}</Trans>
                </Text>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </SettingsCard>
  );
}

function Sessions() {
  const queries = useQueryClient();
  const found = useQuery(credentialsQuery);
  const end = useMutation({
    mutationFn: (id: string) =>
      api.DELETE("/api/v1/session/sessions/{session_id}", { params: { path: { session_id: id } } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["account"] });
      notifications.show({ message: t`That session is signed out` });
    },
  });
  return (
    <SettingsCard title={t`Sessions`} about={t`Your sign-ins; each ends after eight hours.`}>
      {(found.error ?? end.error) && <ProblemNote error={found.error ?? end.error} />}
      <Table aria-label={t`Sessions`}>
        <Table.Tbody>
          {found.data?.sessions.map(({ id, current, source, user_agent, ...times }, at) => (
            <Table.Tr key={id}>
              <Table.Td className="name">
                <Group gap="xs">
                  <Text size="sm" fw={600} title={user_agent ?? undefined}>
                    {browserOf(user_agent)}
                  </Text>
                  {current && (
                    <Badge size="sm" variant="light" tt="none">
                      <Trans>this one</Trans>
                    </Badge>
                  )}
                </Group>
                <Text size="xs" c="dimmed">
                  {source === null ? t`from an unknown address` : t`from ${source}`}
                </Text>
              </Table.Td>
              <Table.Td>
                <Group gap={4}>
                  <Text size="sm" c="dimmed">
                    <Trans>used</Trans>
                  </Text>
                  <TimeSince at={times.last_used_at} />
                </Group>
                <Text size="xs" c="dimmed">
                  <Trans>until {timeOfDay(times.expires_at)}</Trans>
                </Text>
              </Table.Td>
              <Table.Td ta="right">
                {!current && (
                  <ActionIcon
                    variant="subtle"
                    color="gray"
                    aria-label={t`Sign out session ${at + 1}`}
                    loading={end.isPending}
                    onClick={() => end.mutate(id)}
                  >
                    <IconTrash size={16} />
                  </ActionIcon>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </SettingsCard>
  );
}
