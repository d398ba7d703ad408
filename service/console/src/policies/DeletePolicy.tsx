import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { Confirm } from "../shared/Confirm";
import { EffectList } from "../shared/Effect";
import { ProblemNote } from "../shared/ProblemNote";
import { offerUndo } from "../shared/undo";
import { Waiting } from "../shared/Waiting";
import { counted } from "../shared/words";
import { written } from "./form";
import { policyUseQuery, type Policy } from "./queries";

export function DeletePolicy({
  policy,
  onClose,
  onDeleted,
}: {
  policy: Policy;
  onClose: () => void;
  onDeleted: () => void;
}) {
  const { name } = policy;
  const queries = useQueryClient();
  const use = useQuery(policyUseQuery(name));
  const remove = useMutation({
    mutationFn: async () => body(await api.DELETE("/api/v1/policies/{name}", { params: { path: { name } } })),
    onSuccess: ({ tunnels_closed }) => {
      offerUndo(
        `${name} is deleted${tunnels_closed > 0 ? `, ${counted(tunnels_closed, "tunnel")} closed` : ""}`,
        `${name} is there again`,
        () => api.POST("/api/v1/policies", { body: written(policy) }),
      );
      onClose();
      onDeleted();
      queries.removeQueries({ queryKey: ["policies", "one", name] });
    },
  });
  return (
    <Confirm opened onClose={onClose} title={`Delete ${name}?`} act="Delete" mutation={remove}>
      {use.isPending && <Waiting forWhat="what it cuts" />}
      {use.data && <EffectList effect={use.data} />}
      {use.error && <ProblemNote error={use.error} />}
    </Confirm>
  );
}
