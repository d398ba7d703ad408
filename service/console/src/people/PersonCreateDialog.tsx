import { Button, Group, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { byField, problemOf } from "../api/problem";
import { Dialog } from "../shared/Dialog";
import { ProblemNote } from "../shared/ProblemNote";

export function PersonCreateDialog({
  opened,
  onClose,
  onAdded,
}: {
  opened: boolean;
  onClose: () => void;
  onAdded: (name: string) => void;
}) {
  const queries = useQueryClient();
  const form = useForm({ initialValues: { name: "", email: "" } });
  const add = useMutation({
    mutationFn: async (values: typeof form.values) => body(await api.POST("/api/v1/users", { body: values })),
    onSuccess: async ({ name }) => {
      form.reset();
      await queries.invalidateQueries({ queryKey: ["users"] });
      onAdded(name);
    },
    onError: (error) => form.setErrors(byField(problemOf(error), Object.keys(form.values)).fields),
  });
  return (
    <Dialog opened={opened} onClose={onClose} title="Add a person">
      <form onSubmit={form.onSubmit((values) => add.mutate(values))}>
        <Stack>
          <TextInput
            label="Name"
            description="Lower-case letters, digits, dots and dashes; it cannot be changed later"
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
          {add.error && byField(problemOf(add.error), Object.keys(form.values)).rest && (
            <ProblemNote error={add.error} />
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={add.isPending}>
              Add and invite
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
