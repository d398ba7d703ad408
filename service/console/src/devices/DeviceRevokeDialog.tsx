import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { List } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { useTunnelsBy } from "../live/live";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { calledBy } from "../shared/PersonName";
import { closes } from "../shared/words";
import type { Device } from "./queries";

export function DeviceRevokeDialog({
  device: { id, name, user: login, user_display_name },
  onClose,
}: {
  device: Device;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const user = calledBy(login, user_display_name);
  const open = useTunnelsBy("device_id").get(id)?.length ?? 0;
  const revoke = useMutation({
    mutationFn: async () =>
      body(await api.POST("/api/v1/devices/{device_id}/revoke", { params: { path: { device_id: id } } })),
    onSuccess: async ({ tunnels_closed: closed }) => {
      notifications.show({
        message: t`${name} is revoked, ${plural(closed, { one: "# tunnel closed", other: "# tunnels closed" })}`,
      });
      await queries.invalidateQueries({ queryKey: ["devices"] });
      onClose();
    },
  });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={t`Revoke ${name} of ${user}?`}
      act={t`Revoke ${name}`}
      mutation={revoke}
    >
      <List size="sm" spacing={4}>
        <List.Item>{closes(open)}</List.Item>
        <List.Item>
          <Trans>
            The computer loses access and deletes its key: this cannot be undone, and it has to be enrolled
            again with a new invitation
          </Trans>
        </List.Item>
      </List>
    </ConfirmDialog>
  );
}
