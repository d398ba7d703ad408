import { Group, SegmentedControl, Stack, Switch, Text, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";

import { POLICY_NAME_MAX } from "../api/contract";
import { NameField, NamesField } from "../shared/NamesField";
import { ConditionFields } from "./ConditionFields";
import type { PolicyForm } from "./form";

const WHOSE = [
  { value: "group", label: "A group" },
  { value: "user", label: "One person" },
];

export function PolicyFields({ form }: { form: UseFormReturnType<PolicyForm> }) {
  const { whose } = form.values;
  return (
    <Stack gap="lg">
      <TextInput
        label="Name"
        description="A name for lists and for the log"
        placeholder="Writers reach the wiki"
        required
        maxLength={POLICY_NAME_MAX}
        {...form.getInputProps("name")}
      />
      <Stack gap={6} role="group" aria-label="Who">
        <Text size="sm" fw={500}>
          Who
        </Text>
        <Group align="flex-start">
          <SegmentedControl
            aria-label="The policy applies to"
            data={WHOSE}
            value={whose}
            onChange={(value) => form.setValues({ whose: value === "user" ? "user" : "group", who: "" })}
          />
          <NameField
            key={whose}
            area={whose === "group" ? "groups" : "users"}
            aria-label={whose === "group" ? "Group" : "Person"}
            placeholder={whose === "group" ? "Choose a group" : "Choose a person"}
            flex={1}
            miw={200}
            {...form.getInputProps("who")}
            value={form.values.who === "" ? null : form.values.who}
            onChange={(who) => form.setFieldValue("who", who ?? "")}
          />
        </Group>
      </Stack>
      <NamesField
        area="resources"
        label="May reach"
        placeholder={form.values.resources.length > 0 ? "" : "At least one resource"}
        withAsterisk
        {...form.getInputProps("resources")}
      />
      <ConditionFields form={form} />
      <Switch
        label="In force"
        description="A policy that is switched off permits nothing and is kept"
        {...form.getInputProps("enabled", { type: "checkbox" })}
      />
    </Stack>
  );
}
