import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Group, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { Dialog } from "../shared/Dialog";
import { ProblemNote } from "../shared/ProblemNote";
import { QrSecret } from "../shared/QrSecret";
import { SecretPanel } from "../shared/SecretPanel";
import { moment } from "../shared/words";

/** The link is made on request, because each one enrols a computer. */
export function InviteDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const invite = useMutation({
    mutationFn: async () => body(await api.POST("/api/v1/invitations", { body: { user: name } })),
  });
  const until = invite.data === undefined ? "" : moment(invite.data.expires_at);
  return (
    <Dialog opened onClose={onClose} title={t`Invite a computer of ${name}`}>
      {invite.data === undefined ? (
        <Stack>
          <Text size="sm">
            <Trans>
              The link opens a page that leads {name} through the enrolment of one computer. Give it to {name}{" "}
              alone: a computer that uses it has their access.
            </Trans>
          </Text>
          {invite.error && <ProblemNote error={invite.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              <Trans>Later</Trans>
            </Button>
            <Button onClick={() => invite.mutate()} loading={invite.isPending}>
              <Trans>Make a link</Trans>
            </Button>
          </Group>
        </Stack>
      ) : (
        <Stack>
          <QrSecret value={invite.data.link} title={t`QR code of the invitation`} />
          <SecretPanel
            label={t`Invitation`}
            value={invite.data.link}
            about={t`Valid until ${until}.`}
            onClose={onClose}
          />
        </Stack>
      )}
    </Dialog>
  );
}
