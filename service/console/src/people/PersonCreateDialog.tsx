import { t } from "@lingui/core/macro";
import { TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { FormDialog } from "../shared/FormDialog";
import { suggestedLogin, useSuggestion } from "../shared/suggestion";
import { makeInvitation, type Invitation } from "./InviteDialog";
import { PersonFields, personOf } from "./PersonFields";

const LOGIN = "alice";
const NEW = { display_name: "", email: "", name: "" };

export function PersonCreateDialog({
  mayInvite,
  onClose,
  onAdded,
}: {
  mayInvite: boolean;
  onClose: () => void;
  /** `invitation`: null if none could be made. */
  onAdded: (name: string, invitation: Invitation | null) => void;
}) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: async (person: typeof NEW) => {
      const asked = { ...personOf(person), name: person.name.trim() };
      const { name } = body(await api.POST("/api/v1/users", { body: asked }));
      // The person is there: a fault of the invitation must not ask for the same person again.
      return { name, invitation: mayInvite ? await makeInvitation(name).catch(() => null) : null };
    },
    onSuccess: async ({ name, invitation }) => {
      await queries.invalidateQueries({ queryKey: ["users"] });
      onAdded(name, invitation);
    },
  });
  return (
    <FormDialog
      title={t`Add a person`}
      act={mayInvite ? t`Add and invite` : t`Add it`}
      initial={NEW}
      mutation={add}
      onClose={onClose}
    >
      {(form) => <NewFields form={form} />}
    </FormDialog>
  );
}

function NewFields({ form }: { form: UseFormReturnType<typeof NEW> }) {
  const suggest = useSuggestion(form.values.name, (name) => form.setFieldValue("name", name));
  return (
    <>
      <PersonFields form={form} onEmail={(email) => suggest(suggestedLogin(email))} />
      <TextInput
        label={t`Login name`}
        description={t`Lower-case letters, digits, dots and hyphens; it stays for good`}
        placeholder={LOGIN}
        required
        spellCheck={false}
        autoCapitalize="none"
        {...form.getInputProps("name")}
      />
    </>
  );
}
