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
import { fieldsOf, NEW, siteTunnelOf, VALIDATE } from "./form";
import { ButtonLink } from "../shared/links";

export function SiteTunnelCreatePage() {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const form = useForm({ initialValues: NEW, validate: VALIDATE });
  const create = useMutation({
    mutationFn: async () => body(await api.POST("/api/v1/site-tunnels", { body: siteTunnelOf(form.values) })),
    onError: (error) => form.setErrors(byField(problemOf(error), fieldsOf(form.values)).fields),
    onSuccess: async ({ name }) => {
      await queries.invalidateQueries({ queryKey: ["site-tunnels"] });
      notifications.show({ message: `${name} is created; it opens as soon as both gateways have its keys` });
      await navigate({ to: "/site-tunnels/of/$name", params: { name } });
    },
  });
  return (
    <Stack maw={960}>
      <PageHead
        title="Add a site tunnel"
        about="Between two gateways, for hosts without Culvert; always on."
      />
      <form onSubmit={form.onSubmit(() => create.mutate())} aria-label="Site tunnel">
        <Stack gap="lg">
          <Fields form={form} isNew />
          {create.error && byField(problemOf(create.error), fieldsOf(form.values)).rest && (
            <ProblemNote error={create.error} />
          )}
          <Group>
            <Button type="submit" loading={create.isPending}>
              Add it
            </Button>
            <ButtonLink variant="default" to="/site-tunnels">
              Cancel
            </ButtonLink>
          </Group>
        </Stack>
      </form>
    </Stack>
  );
}
