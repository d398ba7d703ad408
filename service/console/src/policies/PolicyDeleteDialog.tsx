import { api, body } from "../api/client";
import { DeleteDialog } from "../shared/DeleteDialog";
import { EffectList } from "../shared/Effect";
import { written } from "./form";
import { policyUseQuery, type Policy } from "./queries";

export function PolicyDeleteDialog({
  policy,
  ...rest
}: {
  policy: Policy;
  onClose: () => void;
  onDeleted: () => Promise<void>;
}) {
  const { name } = policy;
  return (
    <DeleteDialog
      name={name}
      use={policyUseQuery(name)}
      rowKey={["policies", "one", name]}
      remove={async () => body(await api.DELETE("/api/v1/policies/{name}", { params: { path: { name } } }))}
      restore={() => api.POST("/api/v1/policies", { body: written(policy) })}
      {...rest}
    >
      {(effect) => <EffectList effect={effect} />}
    </DeleteDialog>
  );
}
