import { Button, List, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";

import { api } from "../api/client";
import type { Gateway } from "../live/live";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { notifyProblem } from "../shared/ProblemNote";
import { counted } from "../shared/words";

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
      title={`Drain ${name}?`}
      act={anyway ? "Drain anyway" : "Drain"}
      mutation={drain}
    >
      <List size="sm" spacing={4}>
        <List.Item>No new tunnels open through it</List.Item>
        <List.Item>
          {tunnels === 0
            ? "No open tunnels will be moved"
            : `${counted(tunnels, "tunnel")} will move, if another gateway serves the same resource`}
        </List.Item>
        {anyway && (
          <List.Item>
            <Text span inherit c="var(--mantine-color-error)">
              No other gateway serves {alone_for.join(", ")}: open tunnels stay, and no new tunnel can be
              opened
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
      Use it again
    </Button>
  );
}
