import { Button, Center, CopyButton, Group, Paper, Stack, Text, TextInput } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { QRCodeSVG } from "qrcode.react";

import { api, body } from "../api/client";
import { Dialog } from "../shared/Dialog";
import { ProblemNote } from "../shared/ProblemNote";

/** A link is made when somebody asks for it, because each is good for a computer. */
export function InviteDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const invite = useMutation({
    mutationFn: async () => body(await api.POST("/api/v1/invitations", { body: { user: name } })),
  });
  return (
    <Dialog opened onClose={onClose} title={`Invite a computer of ${name}`}>
      {invite.data === undefined ? (
        <Stack>
          <Text size="sm">
            The link enrols one computer, once. Give it to {name} alone: a computer that uses it acts for
            them.
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
          <Center>
            <Paper p="md" bg="white" withBorder>
              <QRCodeSVG value={invite.data.link} size={200} title="QR code of the invitation" />
            </Paper>
          </Center>
          <TextInput
            label="Invitation"
            readOnly
            value={invite.data.link}
            onFocus={(event) => event.target.select()}
          />
          <Text size="sm" c="dimmed">
            Good until{" "}
            {new Date(invite.data.expires_at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}
            . It is shown this once.
          </Text>
          <Group justify="flex-end">
            <CopyButton value={invite.data.link}>
              {({ copied, copy }) => (
                <Button
                  variant="default"
                  leftSection={copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
                  onClick={copy}
                >
                  {copied ? "Copied" : "Copy"}
                </Button>
              )}
            </CopyButton>
            <Button onClick={onClose}>Done</Button>
          </Group>
        </Stack>
      )}
    </Dialog>
  );
}
