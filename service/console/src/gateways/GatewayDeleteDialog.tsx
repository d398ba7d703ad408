import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { List } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";

import { api } from "../api/client";
import type { Gateway } from "../live/live";
import { useReturn } from "../shared/lists";
import { ConfirmDialog } from "../shared/ConfirmDialog";

/** The controller refuses the deletion of a gateway in use, and names what uses it. */
export function GatewayDeleteDialog({
  gateway: { name, tunnels, alone_for, end_of },
  onClose,
}: {
  gateway: Gateway;
  onClose: () => void;
}) {
  const goBack = useReturn();
  const remove = useMutation({
    mutationFn: () => api.DELETE("/api/v1/gateways/{name}", { params: { path: { name } } }),
    onSuccess: async () => {
      notifications.show({ message: t`${name} is deleted` });
      await goBack("/gateways");
    },
  });
  const only = alone_for.join(", ");
  const sites = end_of.join(", ");
  return (
    <ConfirmDialog onClose={onClose} title={t`Delete ${name}?`} act={t`Delete ${name}`} mutation={remove}>
      <List size="sm" spacing={4}>
        {tunnels > 0 && (
          <List.Item>
            {plural(tunnels, {
              one: "# tunnel is open: drain the gateway first",
              other: "# tunnels are open: drain the gateway first",
            })}
          </List.Item>
        )}
        {only !== "" && (
          <List.Item>
            <Trans>No other gateway serves {only}</Trans>
          </List.Item>
        )}
        {sites !== "" && (
          <List.Item>
            {plural(end_of.length, {
              one: `It is an end of the site tunnel ${sites}`,
              other: `It is an end of the site tunnels ${sites}`,
            })}
          </List.Item>
        )}
        <List.Item>
          <Trans>Its certificate and its keys are not accepted any more</Trans>
        </List.Item>
        <List.Item>
          <Trans>To come back, the computer has to join anew</Trans>
        </List.Item>
      </List>
    </ConfirmDialog>
  );
}
