import { t } from "@lingui/core/macro";
import { PasswordInput, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";

export type Proof = Record<"password" | "code", string>;

export const NO_PROOF: Proof = { password: "", code: "" };

/** Password and code, asked for again before a change to the account. */
export function ProofFields<Form extends Proof>({
  form,
  label = t`Password`,
}: {
  form: UseFormReturnType<Form>;
  label?: string;
}) {
  return (
    <>
      <PasswordInput
        label={label}
        autoComplete="current-password"
        required
        data-autofocus
        {...form.getInputProps("password")}
      />
      <TextInput
        label={t`Code`}
        description={t`Six digits from your authenticator, or a recovery code`}
        autoComplete="one-time-code"
        spellCheck={false}
        required
        {...form.getInputProps("code")}
      />
    </>
  );
}

export const typed = (code: string): string => code.replaceAll(" ", "");
