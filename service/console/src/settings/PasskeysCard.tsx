import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { ActionIcon, Button, Group, Stack, Table, Text, TextInput } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { PASSKEY_NAME_MAX } from "../api/contract";
import { api } from "../api/client";
import { addPasskey, canUsePasskeys, isBrokenOff } from "../session/passkey";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { FormDialog } from "../shared/FormDialog";
import { Name } from "../shared/Name";
import { TimeSince } from "../shared/TimeSince";
import { ProblemNote } from "../shared/ProblemNote";
import { SettingsCard } from "./SettingsCard";
import { credentialsQuery, type Passkey } from "./queries";

const NO_NAME = { name: "" };

export function PasskeysCard() {
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Passkey | null>(null);
  const found = useQuery(credentialsQuery);
  return (
    <SettingsCard
      title={t`Passkeys`}
      about={
        canUsePasskeys()
          ? t`A passkey of this computer, of a phone or of a security key signs you in without password and code.`
          : t`Passkeys need the console to be opened by its name; this page was opened by an IP address.`
      }
      action={
        canUsePasskeys() && (
          <Button variant="default" onClick={() => setAdding(true)}>
            <Trans>Add a passkey</Trans>
          </Button>
        )
      }
    >
      {found.error && <ProblemNote error={found.error} />}
      {found.data && found.data.passkeys.length > 0 && (
        <Table aria-label={t`Passkeys`}>
          <Table.Tbody>
            {found.data.passkeys.map((passkey) => (
              <Table.Tr key={passkey.id}>
                <Table.Td className="name">
                  <Text size="sm" fw={600}>
                    <Name>{passkey.name}</Name>
                  </Text>
                </Table.Td>
                <Table.Td>
                  <Group gap={4}>
                    <Text size="sm" c="dimmed">
                      <Trans>used</Trans>
                    </Text>
                    <TimeSince at={passkey.last_used_at} />
                  </Group>
                  <Group gap={4}>
                    <Text size="xs" c="dimmed">
                      <Trans>added</Trans>
                    </Text>
                    <TimeSince at={passkey.created_at} />
                  </Group>
                </Table.Td>
                <Table.Td ta="right">
                  <ActionIcon
                    variant="subtle"
                    color="gray"
                    aria-label={t`Remove ${passkey.name}`}
                    onClick={() => setRemoving(passkey)}
                  >
                    <IconTrash size={16} />
                  </ActionIcon>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
      {adding && <AddPasskey onClose={() => setAdding(false)} />}
      {removing && <RemovePasskey passkey={removing} onClose={() => setRemoving(null)} />}
    </SettingsCard>
  );
}

function AddPasskey({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: ({ name }: typeof NO_NAME) => addPasskey(name),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["account"] });
      onClose();
    },
  });
  const { error } = add;
  return (
    <FormDialog
      title={t`Add a passkey`}
      act={t`Continue`}
      initial={NO_NAME}
      mutation={isBrokenOff(error) ? { ...add, error: null } : add}
      onClose={onClose}
    >
      {(form) => (
        <Stack>
          <TextInput
            label={t`Name`}
            placeholder={t`this laptop`}
            required
            maxLength={PASSKEY_NAME_MAX}
            data-autofocus
            {...form.getInputProps("name")}
          />
          <Text size="sm" c="dimmed" role={isBrokenOff(error) ? "alert" : undefined}>
            {isBrokenOff(error)
              ? t`No passkey was made: you cancelled, or this authenticator already has one.`
              : t`Your browser asks for it next.`}
          </Text>
        </Stack>
      )}
    </FormDialog>
  );
}

function RemovePasskey({ passkey: { id, name }, onClose }: { passkey: Passkey; onClose: () => void }) {
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () =>
      api.DELETE("/api/v1/session/passkeys/{passkey_id}", { params: { path: { passkey_id: id } } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["account"] });
      onClose();
    },
  });
  return (
    <ConfirmDialog onClose={onClose} title={t`Remove ${name}?`} act={t`Remove ${name}`} mutation={remove}>
      <Text size="sm">
        <Trans>It can no longer be used to sign in. This cannot be undone, but you can add it again.</Trans>
      </Text>
    </ConfirmDialog>
  );
}
