import { Stack, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";

import { NamesField } from "../shared/NamesField";
import type { GroupForm } from "./queries";

export function GroupFields({ form }: { form: UseFormReturnType<GroupForm> }) {
  return (
    <Stack gap="lg">
      <TextInput
        label="Name"
        description="Lower-case letters, digits and hyphens"
        placeholder="writers"
        required
        spellCheck={false}
        autoCapitalize="none"
        {...form.getInputProps("name")}
      />
      <NamesField
        area="users"
        label="Members"
        placeholder={form.values.members.length > 0 ? "" : "Nobody yet"}
        {...form.getInputProps("members")}
      />
    </Stack>
  );
}
