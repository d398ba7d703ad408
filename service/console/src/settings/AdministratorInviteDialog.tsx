import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Radio, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { say } from "../locale/language";
import { api, body } from "../api/client";
import { Dialog, DialogButtons } from "../shared/Dialog";
import { ProblemNote } from "../shared/ProblemNote";
import { invitationsQuery, type Role } from "./queries";
import { SecretPanel } from "../shared/SecretPanel";
import { moment, ROLES, sayRole } from "../shared/words";

export function AdministratorInviteDialog({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const [role, setRole] = useState<Role>("admin");
  const invite = useMutation({
    mutationFn: async () => body(await api.POST("/api/v1/admins/invitations", { body: { role } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: invitationsQuery.queryKey }),
  });
  return (
    <Dialog opened onClose={onClose} title={t`Invite an administrator`}>
      {invite.data ? (
        <SecretPanel
          label={t`Invitation`}
          value={invite.data.link}
          about={t`Makes one account, ${sayRole(role)}, until ${moment(invite.data.expires_at)}.`}
          onClose={onClose}
        />
      ) : (
        <Stack>
          <Radio.Group label={t`As`} value={role} onChange={(value) => setRole(value)}>
            <Stack gap="xs" mt="xs">
              {ROLES.map(({ value, label, about }) => (
                <Radio key={value} value={value} label={say(label)} description={say(about)} />
              ))}
            </Stack>
          </Radio.Group>
          <Text size="sm">
            <Trans>Give the link to that person alone: its first user gets the account.</Trans>
          </Text>
          {invite.error && <ProblemNote error={invite.error} />}
          <DialogButtons>
            <Button variant="default" onClick={onClose}>
              <Trans>Cancel</Trans>
            </Button>
            <Button onClick={() => invite.mutate()} loading={invite.isPending}>
              <Trans>Make a link</Trans>
            </Button>
          </DialogButtons>
        </Stack>
      )}
    </Dialog>
  );
}
