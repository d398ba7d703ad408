import { Text } from "@mantine/core";

import { EffectBox, EffectList } from "../shared/Effect";
import { useEffectOf } from "../shared/useEffectOf";
import { isWhole, policyOf, type PolicyForm } from "./form";
import { previewPolicy, type Policy } from "./queries";

/** What the form would do as it stands. `before`: the policy in whose place it would be. */
export function PolicyEffect({ values, before }: { values: PolicyForm; before?: Policy }) {
  const asked = isWhole(values) ? policyOf(values) : null;
  const effect = useEffectOf("policies", before?.name ?? null, asked, (body) =>
    previewPolicy(body, before?.name ?? null),
  );
  return (
    <EffectBox>
      {asked !== null && effect.data ? (
        <EffectList effect={effect.data} />
      ) : (
        <Text size="sm" c="dimmed">
          {effect.isError && asked !== null
            ? "Cannot be told: something above is not right yet."
            : "Say who may reach what, and it shows here."}
        </Text>
      )}
    </EffectBox>
  );
}
