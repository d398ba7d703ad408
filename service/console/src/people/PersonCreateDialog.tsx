import { t } from "@lingui/core/macro";
import { TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { FormDialog } from "../shared/FormDialog";
import { PersonFields, personOf } from "./PersonFields";

const LOGIN = "alice";
const NEW = { display_name: "", email: "", name: "" };

export function PersonCreateDialog({
  onClose,
  onAdded,
}: {
  onClose: () => void;
  onAdded: (name: string) => void;
}) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: async (person: typeof NEW) =>
      body(await api.POST("/api/v1/users", { body: { ...personOf(person), name: person.name.trim() } })),
    onSuccess: async ({ name }) => {
      await queries.invalidateQueries({ queryKey: ["users"] });
      onAdded(name);
    },
  });
  return (
    <FormDialog
      title={t`Add a person`}
      act={t`Add and invite`}
      initial={NEW}
      mutation={add}
      onClose={onClose}
    >
      {(form) => (
        <>
          <PersonFields form={form} />
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
      )}
    </FormDialog>
  );
}
