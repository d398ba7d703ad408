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
import { FIELDS, groupOf, type GroupForm } from "./queries";
import { ButtonLink } from "../shared/links";

export function GroupCreatePage() {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const form = useForm<GroupForm>({ initialValues: { name: "", members: [] } });
  const create = useMutation({
    mutationFn: async () => body(await api.POST("/api/v1/groups", { body: groupOf(form.values) })),
    onError: (error) => form.setErrors(byField(problemOf(error), FIELDS).fields),
    onSuccess: async ({ name }) => {
      await queries.invalidateQueries({ queryKey: ["groups"] });
      notifications.show({ message: `The group ${name} is created` });
      await navigate({ to: "/groups" });
    },
  });
  return (
    <Stack maw={760}>
      <PageHead title="Add a group" about="People who reach the same resources, by the group’s policies." />
      <form onSubmit={form.onSubmit(() => create.mutate())} aria-label="Group">
        <Stack gap="lg">
          <Fields form={form} />
          {create.error && byField(problemOf(create.error), FIELDS).rest && (
            <ProblemNote error={create.error} />
          )}
          <Group>
            <Button type="submit" loading={create.isPending}>
              Add it
            </Button>
            <ButtonLink variant="default" to="/groups">
              Cancel
            </ButtonLink>
          </Group>
        </Stack>
      </form>
    </Stack>
  );
}
