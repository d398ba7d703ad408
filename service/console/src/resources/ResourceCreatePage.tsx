import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Alert, Button, Group, List, Paper, Stack, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { IconEye } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { api, body, type Schemas } from "../api/client";
import { byField, problemOf } from "../api/problem";
import { PageHead } from "../shared/PageHead";
import { both } from "../shared/words";
import { ProblemNote } from "../shared/ProblemNote";
import { ResourceFields } from "./ResourceFields";
import { fieldsOf, NEW, resourceOf, suggestedName, VALIDATE } from "./form";
import { ButtonLink } from "../shared/links";

/** The first submission previews the resource, the second creates it. */
export function ResourceCreatePage() {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [suggested, setSuggested] = useState("");
  const form = useForm({
    initialValues: NEW,
    validate: VALIDATE,
    // The preview was of other values.
    onValuesChange: () => preview.reset(),
  });
  const onError = (error: Error) => form.setErrors(byField(problemOf(error), fieldsOf(form.values)).fields);
  const preview = useMutation({
    mutationFn: async () =>
      body(await api.POST("/api/v1/resources/preview", { body: resourceOf(form.values) })),
    onError,
  });
  const create = useMutation({
    mutationFn: async () => body(await api.POST("/api/v1/resources", { body: resourceOf(form.values) })),
    onError,
    onSuccess: async ({ name, display_name }) => {
      await queries.invalidateQueries({ queryKey: ["resources"] });
      notifications.show({ message: t`${display_name} is published` });
      await navigate({ to: "/resources/of/$name", params: { name } });
    },
  });
  const failed = create.error ?? preview.error;
  return (
    <Stack maw={760}>
      <PageHead title={t`Add a resource`} />
      <form onSubmit={form.onSubmit(() => (preview.data ? create.mutate() : preview.mutate()))}>
        <Stack gap="lg">
          <ResourceFields
            form={form}
            isNew
            onFqdn={(fqdn) => {
              const next = suggestedName(fqdn);
              if (form.values.name === suggested) form.setFieldValue("name", next);
              setSuggested(next);
            }}
          />
          {failed && byField(problemOf(failed), fieldsOf(form.values)).rest && <ProblemNote error={failed} />}
          {preview.data && <Effect fqdn={form.values.fqdn} effect={preview.data} />}
          <Group>
            <Button type="submit" loading={preview.isPending || create.isPending}>
              {preview.data ? t`Publish it` : t`Preview`}
            </Button>
            <ButtonLink variant="default" to="/resources">
              <Trans>Cancel</Trans>
            </ButtonLink>
          </Group>
        </Stack>
      </form>
    </Stack>
  );
}

function Effect({ fqdn, effect: { records, people } }: { fqdn: string; effect: Schemas["PreviewOut"] }) {
  return (
    <Paper withBorder p="md" role="region" aria-label={t`Effect of this change`} aria-live="polite">
      <Group gap="xs" mb="xs">
        <IconEye size={18} />
        <Text fw={600}>
          <Trans>Effect of this change</Trans>
        </Text>
      </Group>
      <List size="sm" spacing={4}>
        {records.map(({ zone, origin, types }) => (
          <List.Item key={zone}>
            <Trans>
              Publish {both(types)} for{" "}
              <Text span className="name" fw={550} inherit>
                {fqdn}
              </Text>{" "}
              in {origin}
            </Trans>
          </List.Item>
        ))}
        <List.Item>
          {people.length === 0
            ? t`No person gets access yet: choose people here, or add a policy`
            : plural(people.length, { one: "# person gets access", other: "# people get access" }) +
              `: ${people.join(", ")}`}
        </List.Item>
      </List>
      {records.length === 0 && (
        <Alert mt="sm" color="yellow" variant="light">
          <Trans>
            Culvert publishes no record: this name is in none of its zones. Devices still find it if your own
            DNS answers for it.
          </Trans>
        </Alert>
      )}
    </Paper>
  );
}
