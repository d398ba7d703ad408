import { Button, Code, Group, List, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { useTunnelsBy } from "../live/live";
import { Dialog } from "../shared/Dialog";
import { ProblemNote } from "../shared/ProblemNote";
import { QrSecret } from "../shared/QrSecret";
import { counted } from "../shared/words";
import type { Device } from "./queries";

/** Replaces a lost authenticator. A code proves no more than access to the authenticator, so the person must be known. */
export function DeviceAuthenticatorDialog({
  device: { id, name, user },
  onClose,
}: {
  device: Device;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const open = useTunnelsBy("device_id").get(id)?.length ?? 0;
  const replace = useMutation({
    mutationFn: async () =>
      body(
        await api.POST("/api/v1/devices/{device_id}/authenticator", { params: { path: { device_id: id } } }),
      ),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["devices"] }),
  });
  return (
    <Dialog opened onClose={onClose} title={`New authenticator for ${name} of ${user}`}>
      {replace.data === undefined ? (
        <Stack>
          <List size="sm" spacing={4}>
            <List.Item>The old authenticator’s codes and recovery codes stop working</List.Item>
            <List.Item>
              {open === 0
                ? "No open tunnels will be closed"
                : `Of ${counted(open, "open tunnel")}, closes those that need a code`}
            </List.Item>
            <List.Item>Show the new one to {user} alone, after you have checked their identity</List.Item>
          </List>
          {replace.error && <ProblemNote error={replace.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button color="red" onClick={() => replace.mutate()} loading={replace.isPending}>
              Replace it
            </Button>
          </Group>
        </Stack>
      ) : (
        <Stack>
          <QrSecret value={replace.data.totp_uri} title="QR code for an authenticator" />
          <Text size="sm">Recovery codes; each works once:</Text>
          <Code block>{replace.data.recovery_codes.join("\n")}</Code>
          <Text size="sm" c="dimmed">
            Both are shown only once.
          </Text>
          <Group justify="flex-end">
            <Button onClick={onClose}>Done</Button>
          </Group>
        </Stack>
      )}
    </Dialog>
  );
}
