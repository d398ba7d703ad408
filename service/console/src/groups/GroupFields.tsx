import { t } from "@lingui/core/macro";
import { Stack, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";

import { NamesField } from "../shared/NamesField";
import type { GroupForm } from "./queries";

export function GroupFields({ form }: { form: UseFormReturnType<GroupForm> }) {
  return (
    <Stack gap="lg">
      <TextInput
        label={t`Name`}
        description={t`Lower-case letters, digits and hyphens`}
        placeholder="writers"
        required
        spellCheck={false}
        autoCapitalize="none"
        {...form.getInputProps("name")}
      />
      <NamesField
        area="users"
        label={t`Members`}
        placeholder={form.values.members.length > 0 ? "" : t`Nobody yet`}
        {...form.getInputProps("members")}
      />
    </Stack>
  );
}
