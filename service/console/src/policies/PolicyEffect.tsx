import { t } from "@lingui/core/macro";
import { Text } from "@mantine/core";

import { Breaks, EffectBox, EffectList, type OnBreaks } from "../shared/Effect";
import { useEffectOf } from "../shared/useEffectOf";
import { isWhole, policyOf, type PolicyForm } from "./form";
import { previewPolicy, type Policy } from "./queries";

/** The effect of the form's content. `before`: the policy that it would replace. */
export function PolicyEffect({
  values,
  before,
  onBreaks,
}: {
  values: PolicyForm;
  before?: Policy;
  onBreaks: OnBreaks;
}) {
  // The effect does not depend on the name.
  const named = values.name.trim() === "" ? { ...values, name: "new" } : values;
  const asked = isWhole(named) ? policyOf(named) : null;
  const effect = useEffectOf("policies", before?.name ?? null, asked, (body) =>
    previewPolicy(body, before?.name ?? null),
  );
  return (
    <EffectBox>
      {asked !== null && effect.data ? (
        <>
          <EffectList
            effect={effect.data}
            {...(before !== undefined && {
              nobody: t`The same people may reach it, where the conditions are met`,
            })}
          />
          <Breaks of={effect.data.breaks} onBreaks={onBreaks} />
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
