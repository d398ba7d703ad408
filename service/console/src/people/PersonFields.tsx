import { t } from "@lingui/core/macro";
import { TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import type { ChangeEventHandler } from "react";

import type { Schemas } from "../api/client";

const EMAIL = "alice@corp.example";

export interface PersonForm extends Record<string, unknown> {
  display_name: string;
  email: string;
}

export const personOf = ({ display_name, email }: PersonForm): Schemas["UserChange"] => ({
  email: email.trim(),
  display_name: display_name.trim() === "" ? null : display_name.trim(),
});

/** The fields of a person that can be changed later. */
export function PersonFields<Form extends PersonForm>({
  form,
  onEmail,
}: {
  form: UseFormReturnType<Form>;
  onEmail?: (email: string) => void;
}) {
  const email = form.getInputProps("email") as { onChange: ChangeEventHandler<HTMLInputElement> };
  return (
    <>
      <TextInput
        label={t`Display name`}
        description={t`As people write it, in any script`}
        placeholder={t`Alice Example`}
        data-autofocus
        dir="auto"
        {...form.getInputProps("display_name")}
      />
      <TextInput
        label={t`E-mail address`}
        type="email"
        placeholder={EMAIL}
        required
        {...email}
        onChange={(event) => {
          email.onChange(event);
          onEmail?.(event.currentTarget.value);
        }}
      />
    </>
  );
}
