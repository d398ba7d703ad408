import { List, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { written } from "../policies/form";
import { allPolicies, type Policy } from "../policies/queries";
import { Confirm } from "../shared/Confirm";
import { EffectList } from "../shared/Effect";
import { ProblemNote } from "../shared/ProblemNote";
import { offerUndo } from "../shared/undo";
import { Waiting } from "../shared/Waiting";
import { counted } from "../shared/words";
import { formOf, groupUseQuery, type Group } from "./queries";

export function DeleteGroup({
  group,
  onClose,
  onDeleted,
}: {
  group: Group;
  onClose: () => void;
  onDeleted: () => void;
}) {
  const { name } = group;
  const queries = useQueryClient();
  const use = useQuery(groupUseQuery(name));
  const remove = useMutation({
    mutationFn: async () => {
      const policies = await allPolicies({ group: name });
      const { tunnels_closed } = body(
        await api.DELETE("/api/v1/groups/{name}", { params: { path: { name } } }),
      );
      return { policies, tunnels_closed };
    },
    onSuccess: ({ policies, tunnels_closed }) => {
      offerUndo(
        `${name} is deleted${tunnels_closed > 0 ? `, ${counted(tunnels_closed, "tunnel")} closed` : ""}`,
        `${name} is there again`,
        () => restored(group, policies),
      );
      onClose();
      onDeleted();
      queries.removeQueries({ queryKey: ["groups", "one", name] });
    },
  });
  return (
    <Confirm opened onClose={onClose} title={`Delete ${name}?`} act="Delete" mutation={remove}>
      {use.isPending && <Waiting forWhat="what it cuts" />}
      {use.data && (
        <EffectList effect={use.data}>
          {use.data.policies_deleted.length > 0 && (
            <List.Item>
              Deletes its policies:{" "}
              <Text span inherit className="name">
                {use.data.policies_deleted.join(", ")}
              </Text>
            </List.Item>
          )}
        </EffectList>
      )}
      {use.error && <ProblemNote error={use.error} />}
    </Confirm>
  );
}

async function restored(group: Group, policies: readonly Policy[]): Promise<void> {
  await api.POST("/api/v1/groups", { body: formOf(group) });
  for (const policy of policies) await api.POST("/api/v1/policies", { body: written(policy) });
}
