import { Button, Group, Stack } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { api, body } from "../api/client";
import { byField, problemOf } from "../api/problem";
import { PageHead } from "../shared/PageHead";
import { ProblemNote } from "../shared/ProblemNote";
import { Fields } from "./Fields";
import { FIELDS, fieldsOf, newPolicy, policyOf, VALIDATE } from "./form";
import { PolicyEffect } from "./PolicyEffect";
import { ButtonLink } from "../shared/links";

export function PolicyCreatePage() {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const form = useForm({
    initialValues: newPolicy(Intl.DateTimeFormat().resolvedOptions().timeZone),
    validate: VALIDATE,
  });
  const placed = (error: Error) => byField(problemOf(error), fieldsOf(form.values), FIELDS);
  const create = useMutation({
    mutationFn: async () => body(await api.POST("/api/v1/policies", { body: policyOf(form.values) })),
    onError: (error) => form.setErrors(placed(error).fields),
    onSuccess: async ({ name }) => {
      await queries.invalidateQueries({ queryKey: ["policies"] });
      notifications.show({ message: `${name} is in force` });
      await navigate({ to: "/policies" });
    },
  });
  return (
    <Stack maw={760}>
      <PageHead
        title="Add a policy"
        about="Permits people to reach resources while its conditions are met."
      />
      <form onSubmit={form.onSubmit(() => create.mutate())} aria-label="Policy">
        <Stack gap="lg">
          <Fields form={form} />
          <PolicyEffect values={form.values} />
          {create.error && placed(create.error).rest && <ProblemNote error={create.error} />}
          <Group>
            <Button type="submit" loading={create.isPending}>
              Add it
            </Button>
            <ButtonLink variant="default" to="/policies">
              Cancel
            </ButtonLink>
          </Group>
        </Stack>
      </form>
    </Stack>
  );
}
