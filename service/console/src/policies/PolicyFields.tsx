import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Group, SegmentedControl, Stack, Switch, Text, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";

import { sayOptions } from "../locale/language";
import { POLICY_NAME_MAX } from "../api/contract";
import { NameField, NamesField } from "../shared/NamesField";
import { ConditionFields } from "./ConditionFields";
import type { PolicyForm } from "./form";

const WHOSE = [
  { value: "group", label: msg`A group` },
  { value: "user", label: msg`One person` },
];

export function PolicyFields({
  form,
  named,
  onSubject,
}: {
  form: UseFormReturnType<PolicyForm>;
  /** Called with each choice of the people and of the resources. */
  onSubject?: (chosen: Pick<PolicyForm, "who" | "resources">) => void;
  /** The display name of the policy's person, by login name. */
  named?: Readonly<Record<string, string>>;
}) {
  const { whose, who, resources } = form.values;
  return (
    <Stack gap="lg">
      <TextInput
        label={t`Name`}
        description={t`A name for lists and for the log`}
        placeholder={t`Writers reach the wiki`}
        required
        maxLength={POLICY_NAME_MAX}
        {...form.getInputProps("name")}
      />
      <Stack gap={6} role="group" aria-label={t`Who`}>
        <Text size="sm" fw={600}>
          <Trans>Who</Trans>
        </Text>
        <Group align="flex-start">
          <SegmentedControl
            aria-label={t`The policy applies to`}
            data={sayOptions(WHOSE)}
            value={whose}
            onChange={(value) => {
              form.setValues({ whose: value === "user" ? "user" : "group", who: "" });
              onSubject?.({ who: "", resources });
            }}
          />
          <NameField
            key={whose}
            area={whose === "group" ? "groups" : "users"}
            {...(named && whose === "user" && { named })}
            aria-label={whose === "group" ? t`Group` : t`Person`}
            placeholder={whose === "group" ? t`Choose a group` : t`Choose a person`}
            flex={1}
            miw={200}
            {...form.getInputProps("who")}
            value={who === "" ? null : who}
            onChange={(chosen) => {
              form.setFieldValue("who", chosen ?? "");
              onSubject?.({ who: chosen ?? "", resources });
            }}
          />
        </Group>
      </Stack>
      <NamesField
        area="resources"
        label={t`May reach`}
        placeholder={resources.length > 0 ? "" : t`At least one resource`}
        withAsterisk
        {...form.getInputProps("resources")}
        onChange={(chosen) => {
          form.setFieldValue("resources", chosen);
          onSubject?.({ who, resources: chosen });
        }}
      />
      <ConditionFields form={form} />
      <Switch
        label={t`In force`}
        description={t`A policy that is switched off permits nothing and is kept`}
        {...form.getInputProps("enabled", { type: "checkbox" })}
      />
    </Stack>
  );
}
