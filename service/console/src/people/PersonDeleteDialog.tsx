import { List } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { useTunnelsBy } from "../live/live";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { closes, counted } from "../shared/words";

export function PersonDeleteDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const queries = useQueryClient();
  const open = useTunnelsBy("user").get(name)?.length ?? 0;
  const remove = useMutation({
    mutationFn: async () => body(await api.DELETE("/api/v1/users/{name}", { params: { path: { name } } })),
    onSuccess: async ({ tunnels_closed }) => {
      notifications.show({ message: `${name} is deleted, ${counted(tunnels_closed, "tunnel")} closed` });
      await queries.invalidateQueries({ queryKey: ["users"] });
      onClose();
    },
  });
  return (
    <ConfirmDialog onClose={onClose} title={`Delete ${name}?`} act="Delete" mutation={remove}>
      <List size="sm" spacing={4}>
        <List.Item>{closes(open)}</List.Item>
        <List.Item>Revokes each of their devices</List.Item>
        <List.Item>Deletes policies that apply to them alone</List.Item>
      </List>
    </ConfirmDialog>
  );
}
