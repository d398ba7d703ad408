import { t } from "@lingui/core/macro";
import { ActionIcon } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconX } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";

import { api } from "../api/client";
import type { Tunnel } from "../live/live";
import { notifyProblem } from "../shared/ProblemNote";

/** Closes one tunnel, without a question: the next use of its name opens it again, if a policy still permits that. */
export function CloseTunnel({ tunnel: { id, display_name: name, device } }: { tunnel: Tunnel }) {
  const close = useMutation({
    mutationFn: () => api.DELETE("/api/v1/tunnels/{tunnel_id}", { params: { path: { tunnel_id: id } } }),
    onSuccess: () =>
      notifications.show({ message: t`The tunnel of ${device} to ${name} is closed; its next use opens it` }),
    onError: notifyProblem,
  });
  const label = t`Close the tunnel of ${device} to ${name}`;
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      aria-label={label}
      title={label}
      loading={close.isPending}
      onClick={() => close.mutate()}
    >
      <IconX size={16} />
    </ActionIcon>
  );
}
