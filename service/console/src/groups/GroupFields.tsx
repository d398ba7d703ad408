import { t } from "@lingui/core/macro";
import { Stack, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";

import { NamesField } from "../shared/NamesField";
import type { Group, GroupForm } from "./queries";

export function GroupFields({
  form,
  named,
}: {
  form: UseFormReturnType<GroupForm>;
  /** The members' display names by login name. */
  named?: Group["display_names"];
}) {
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
        {...(named && { named })}
        label={t`Members`}
        placeholder={form.values.members.length > 0 ? "" : t`Nobody yet`}
        {...form.getInputProps("members")}
      />
    </Stack>
  );
}
