import { Trans } from "@lingui/react/macro";
import { List, Text } from "@mantine/core";

import { api, body } from "../api/client";
import { written } from "../policies/form";
import { allPolicies } from "../policies/queries";
import { DeleteDialog } from "../shared/DeleteDialog";
import { EffectList } from "../shared/Effect";
import { formOf, groupUseQuery, type Group } from "./queries";

export function GroupDeleteDialog({
  group,
  ...rest
}: {
  group: Group;
  onClose: () => void;
  onDeleted: () => Promise<void>;
}) {
  const { name } = group;
  return (
    <DeleteDialog
      name={name}
      use={groupUseQuery(name)}
      rowKey={["groups", "one", name]}
      remove={async () => {
        const policies = await allPolicies({ group: name });
        const params = { path: { name } };
        return { ...body(await api.DELETE("/api/v1/groups/{name}", { params })), policies };
      }}
      restore={async ({ policies }) => {
        await api.POST("/api/v1/groups", { body: formOf(group) });
        for (const policy of policies) await api.POST("/api/v1/policies", { body: written(policy) });
      }}
      {...rest}
    >
      {(effect) => (
        <EffectList effect={effect}>
          {effect.policies_deleted.length > 0 && (
            <List.Item>
              <Trans>
                Deletes its policies:{" "}
                <Text span inherit className="name">
                  {effect.policies_deleted.join(", ")}
                </Text>
              </Trans>
            </List.Item>
          )}
        </EffectList>
      )}
    </DeleteDialog>
  );
}
