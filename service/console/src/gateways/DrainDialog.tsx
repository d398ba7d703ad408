import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, List, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";

import { api } from "../api/client";
import type { Gateway } from "../live/live";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { notifyProblem } from "../shared/ProblemNote";

export function DrainDialog({
  gateway: { name, tunnels, alone_for },
  onClose,
}: {
  gateway: Gateway;
  onClose: () => void;
}) {
  const anyway = alone_for.length > 0;
  const drain = useMutation({
    mutationFn: async () =>
      api.POST("/api/v1/gateways/{name}/drain", { params: { path: { name }, query: { anyway } } }),
    onSuccess: onClose,
  });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={t`Drain ${name}?`}
      act={anyway ? t`Drain ${name} anyway` : t`Drain ${name}`}
      keep={t`Leave it as it is`}
      harmless={!anyway}
      mutation={drain}
    >
      <List size="sm" spacing={4}>
        <List.Item>
          <Trans>No new tunnels open through it</Trans>
        </List.Item>
        <List.Item>
          {tunnels === 0
            ? t`No open tunnels will be moved`
            : plural(tunnels, {
                one: "# tunnel will move, if another gateway serves the same resource",
                other: "# tunnels will move, if another gateway serves the same resource",
              })}
        </List.Item>
        {anyway && (
          <List.Item>
            <Text span inherit c="var(--mantine-color-error)">
              <Trans>
                No other gateway serves {alone_for.join(", ")}: open tunnels stay, and no new tunnel can be
                opened
              </Trans>
            </Text>
          </List.Item>
        )}
      </List>
    </ConfirmDialog>
  );
}

export function UndrainButton({ gateway: { name } }: { gateway: Gateway }) {
  const undrain = useMutation({
    mutationFn: async () => api.POST("/api/v1/gateways/{name}/undrain", { params: { path: { name } } }),
    onError: notifyProblem,
  });
  return (
    <Button onClick={() => undrain.mutate()} loading={undrain.isPending}>
      <Trans>Use it again</Trans>
    </Button>
  );
}
