import { t } from "@lingui/core/macro";
import { Text } from "@mantine/core";

import { Breaks, EffectBox, EffectList } from "../shared/Effect";
import { useEffectOf } from "../shared/useEffectOf";
import { isWhole, policyOf, type PolicyForm } from "./form";
import { previewPolicy, type Policy } from "./queries";

/** The effect of the form's content. `before`: the policy that it would replace. */
export function PolicyEffect({ values, before }: { values: PolicyForm; before?: Policy }) {
  const asked = isWhole(values) ? policyOf(values) : null;
  const effect = useEffectOf("policies", before?.name ?? null, asked, (body) =>
    previewPolicy(body, before?.name ?? null),
  );
  return (
    <EffectBox>
      {asked !== null && effect.data ? (
        <>
          <EffectList effect={effect.data} />
          <Breaks of={effect.data.breaks} />
        </>
      ) : (
        <Text size="sm" c="dimmed">
          {effect.isError && asked !== null
            ? t`No preview: correct the fields above first.`
            : t`Choose people and resources to see the effect.`}
        </Text>
      )}
    </EffectBox>
  );
}
