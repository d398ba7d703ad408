import { Alert, Button, Group, List, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { api, body } from "../api/client";
import { allPolicies } from "../policies/queries";
import { counted } from "../shared/words";
import { Dialog } from "../shared/Dialog";
import { AnchorLink } from "../shared/links";
import { ProblemNote } from "../shared/ProblemNote";
import { Waiting } from "../shared/Waiting";
import { offerUndo } from "../shared/undo";
import { restored } from "./restored";
import { hangsOnQuery, type Resource } from "./queries";

/** Says what it cuts before it does. */
export function DeleteResource({
  resource,
  opened,
  onClose,
}: {
  resource: Resource;
  opened: boolean;
  onClose: () => void;
}) {
  const { name, display_name: shown } = resource;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const use = useQuery({ ...hangsOnQuery(name), enabled: opened });
  const carriers = use.data?.site_tunnels ?? [];
  const remove = useMutation({
    mutationFn: async () => {
      const policies = await allPolicies({ resource: name });
      const { tunnels_closed } = body(
        await api.DELETE("/api/v1/resources/{name}", { params: { path: { name } } }),
      );
      return { policies, tunnels_closed };
    },
    onSuccess: async ({ policies, tunnels_closed }) => {
      offerUndo(
        `${shown} is deleted${tunnels_closed > 0 ? `, ${counted(tunnels_closed, "tunnel")} closed` : ""}`,
        `${shown} is published again`,
        () => restored(resource, policies),
      );
      await navigate({ to: "/resources" });
      queries.removeQueries({ queryKey: ["resources", "one", name] });
    },
  });
  return (
    <Dialog opened={opened} onClose={onClose} title={`Delete ${shown}?`}>
      <Stack>
        {use.isPending && <Waiting forWhat="what it cuts" />}
        {use.data && (
          <List size="sm" spacing={4}>
            <List.Item>Withdraws its records from DNS</List.Item>
            <List.Item>
              {use.data.tunnels === 0
                ? "No open tunnels will be closed"
                : `Closes ${counted(use.data.tunnels, "tunnel")}`}
            </List.Item>
            <List.Item>
              {use.data.people === 0
                ? "Nobody could reach it"
                : `${counted(use.data.people, "person", "people")} cannot reach it any more`}
            </List.Item>
            {use.data.policies_deleted.length > 0 && (
              <List.Item>
                Deletes policies without other resources:{" "}
                <Text span className="name" inherit>
                  {use.data.policies_deleted.join(", ")}
                </Text>
              </List.Item>
            )}
          </List>
        )}
        {carriers.length > 0 && (
          <Alert color="yellow" variant="light" title="It cannot be deleted now">
            {carriers.length === 1
              ? "A tunnel between gateways carries it: "
              : "Tunnels between gateways carry it: "}
            {carriers.map((tunnel, at) => (
              <Text span inherit key={tunnel}>
                {at > 0 && ", "}
                <AnchorLink
                  to="/site-tunnels/of/$name"
                  params={{ name: tunnel }}
                  inherit
                  c="inherit"
                  underline="always"
                  className="name"
                >
                  {tunnel}
                </AnchorLink>
              </Text>
            ))}
            . Take it out there first.
          </Alert>
        )}
        {(remove.error ?? use.error) && <ProblemNote error={remove.error ?? use.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose} data-autofocus>
            Keep it
          </Button>
          <Button
            color="red"
            onClick={() => remove.mutate()}
            loading={remove.isPending}
            disabled={!use.data || carriers.length > 0}
          >
            Delete
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
