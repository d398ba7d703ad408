import { TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { FormDialog } from "../shared/FormDialog";

const NEW = { name: "", email: "" };

export function PersonCreateDialog({
  onClose,
  onAdded,
}: {
  onClose: () => void;
  onAdded: (name: string) => void;
}) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: async (person: typeof NEW) => body(await api.POST("/api/v1/users", { body: person })),
    onSuccess: async ({ name }) => {
      await queries.invalidateQueries({ queryKey: ["users"] });
      onAdded(name);
    },
  });
  return (
    <FormDialog title="Add a person" act="Add and invite" initial={NEW} mutation={add} onClose={onClose}>
      {(form) => (
        <>
          <TextInput
            label="Name"
            description="Lower-case letters, digits, dots and hyphens; it cannot be changed later"
            placeholder="alice"
            required
            spellCheck={false}
            autoCapitalize="none"
            data-autofocus
            {...form.getInputProps("name")}
          />
          <TextInput
            label="E-mail address"
            type="email"
            placeholder="alice@corp.example"
            required
            {...form.getInputProps("email")}
          />
        </>
      )}
    </FormDialog>
  );
}
