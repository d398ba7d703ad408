import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Code, List, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { useTunnelsBy } from "../live/live";
import { Dialog, DialogButtons } from "../shared/Dialog";
import { ProblemNote } from "../shared/ProblemNote";
import { QrSecret } from "../shared/QrSecret";
import { calledBy } from "../shared/PersonName";
import type { Device } from "./queries";

/** Replaces a lost authenticator. A code proves no more than access to the authenticator, so the person must be known. */
export function DeviceAuthenticatorDialog({
  device: { id, name, user: login, user_display_name },
  onClose,
}: {
  device: Device;
  onClose: () => void;
}) {
  const user = calledBy(login, user_display_name);
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
    <Dialog opened onClose={onClose} title={t`New authenticator for ${name} of ${user}`}>
      {replace.data === undefined ? (
        <Stack>
          <List size="sm" spacing={4}>
            <List.Item>
              <Trans>The old authenticator’s codes and recovery codes stop working</Trans>
            </List.Item>
            <List.Item>
              {open === 0
                ? t`No open tunnels will be closed`
                : plural(open, {
                    one: "Of # open tunnel, closes those that need a code",
                    other: "Of # open tunnels, closes those that need a code",
                  })}
            </List.Item>
            <List.Item>
              <Trans>Show the new one to {user} alone, after you have checked their identity</Trans>
            </List.Item>
          </List>
          {replace.error && <ProblemNote error={replace.error} />}
          <DialogButtons>
            <Button variant="default" onClick={onClose}>
              <Trans>Cancel</Trans>
            </Button>
            <Button color="red" onClick={() => replace.mutate()} loading={replace.isPending}>
              <Trans>Replace it</Trans>
            </Button>
          </DialogButtons>
        </Stack>
      ) : (
        <Stack>
          <QrSecret value={replace.data.totp_uri} title={t`QR code for an authenticator`} />
          <Text size="sm">
            <Trans>Recovery codes; each works once:</Trans>
          </Text>
          <Code block>{replace.data.recovery_codes.join("\n")}</Code>
          <Text size="sm" c="dimmed">
            <Trans>Both are shown only once.</Trans>
          </Text>
          <DialogButtons>
            <Button onClick={onClose}>
              <Trans>Done</Trans>
            </Button>
          </DialogButtons>
        </Stack>
      )}
    </Dialog>
  );
}
