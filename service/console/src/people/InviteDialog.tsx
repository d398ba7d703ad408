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
  return (
    <Dialog opened onClose={onClose} title={`Invite a computer of ${name}`}>
      {invite.data === undefined ? (
        <Stack>
          <Text size="sm">
            The link opens a page that leads {name} through the enrolment of one computer. Give it to {name}{" "}
            alone: a computer that uses it has their access.
          </Text>
          {invite.error && <ProblemNote error={invite.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Later
            </Button>
            <Button onClick={() => invite.mutate()} loading={invite.isPending}>
              Make a link
            </Button>
          </Group>
        </Stack>
      ) : (
        <Stack>
          <QrSecret value={invite.data.link} title="QR code of the invitation" />
          <SecretPanel
            label="Invitation"
            value={invite.data.link}
            about={`Valid until ${moment(invite.data.expires_at)}.`}
            onClose={onClose}
          />
        </Stack>
      )}
    </Dialog>
  );
}
