import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Alert, Button, Group, Stack } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef } from "react";

import { api, body } from "../api/client";
import { byField, problemOf } from "../api/problem";
import { useGateways } from "../live/live";
import { EffectBox } from "../shared/Effect";
import { PageHead } from "../shared/PageHead";
import { ProblemNote } from "../shared/ProblemNote";
import { ResourceEffectList } from "./ResourceEffect";
import { ResourceFields } from "./ResourceFields";
import { fieldsOf, NEW, resourceOf, VALIDATE } from "./form";
import { previewResource } from "./queries";
import { AnchorLink, ButtonLink } from "../shared/links";
import { hostOf, suggestedName, useSuggestion } from "../shared/suggestion";
import { useUnsaved } from "../shared/useUnsaved";

/** The first submission previews the resource, the second creates it. */
export function ResourceCreatePage() {
  const { fqdn = "" } = useSearch({ from: "/frame/resources/new" });
  const navigate = useNavigate();
  const queries = useQueryClient();
  const form = useForm({
    initialValues: { ...NEW, fqdn, name: suggestedName(fqdn) },
    // The preview was of other values.
    onValuesChange: () => preview.reset(),
  });
  const { rows } = useGateways();
  const [only, ...others] = rows?.keys() ?? [];
  const single = others.length === 0 ? only : undefined;
  const isChosen = useRef(false);
  useEffect(() => {
    if (single === undefined || isChosen.current) return;
    // Once: a person may take it out.
    isChosen.current = true;
    // The form is as unchanged as before.
    form.setInitialValues({ ...form.getInitialValues(), gateways: [single] });
    form.setFieldValue("gateways", [single]);
  }, [form, single]);
  const suggest = useSuggestion(form.values.name, (name) => form.setFieldValue("name", name));
  const onError = (error: Error) =>
    form.setErrors({
      ...byField(problemOf(error), fieldsOf(form.values)).fields,
      // In the words of the form.
      ...(form.values.gateways.length === 0 && { gateways: VALIDATE.gateways([]) }),
    });
  const preview = useMutation({
    mutationFn: () => previewResource(resourceOf(form.values), null),
    onError,
  });
  const create = useMutation({
    mutationFn: async () => body(await api.POST("/api/v1/resources", { body: resourceOf(form.values) })),
    onError,
    onSuccess: async ({ name, display_name }) => {
      await queries.invalidateQueries({ queryKey: ["resources"] });
      notifications.show({
        message: publishes ? t`${display_name} is published` : t`${display_name} is added`,
      });
      await navigate({ to: "/resources/of/$name", params: { name } });
    },
  });
  useUnsaved(form.isDirty() && !create.isSuccess);
  const buttons = useRef<HTMLDivElement>(null);
  const isShown = preview.data !== undefined;
  // The effect pushes the button that publishes below the screen.
  useEffect(() => {
    if (isShown) buttons.current?.scrollIntoView({ block: "end" });
  }, [isShown]);
  const publishes = preview.data !== undefined && preview.data.records.length > 0;
  const failed = create.error ?? preview.error;
  return (
    <Stack maw={760}>
      <PageHead title={t`Add a resource`} />
      <form onSubmit={form.onSubmit(() => (preview.data ? create.mutate() : preview.mutate()))}>
        <Stack gap="lg">
          <ResourceFields form={form} isNew onFqdn={(fqdn) => suggest(suggestedName(hostOf(fqdn)))} />
          {failed && byField(problemOf(failed), fieldsOf(form.values)).rest && <ProblemNote error={failed} />}
          {preview.data && (
            <EffectBox>
              <ResourceEffectList
                effect={preview.data}
                nobody={t`No person gets access yet: choose people here, or add a policy on its page afterwards`}
              />
              {!publishes && <Unpublished />}
            </EffectBox>
          )}
          <Group ref={buttons} pb="md">
            <Button
              type="submit"
              loading={preview.isPending || create.isPending}
              disabled={preview.data !== undefined && preview.data.breaks.length > 0}
            >
              {preview.data === undefined ? t`Preview` : publishes ? t`Publish it` : t`Add it`}
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

function Unpublished() {
  return (
    <Alert mt="sm" color="yellow" variant="light">
      <Trans>
        Culvert publishes no record: this name is in none of its zones. Devices still find it if your own DNS
        answers for it.{" "}
        <AnchorLink to="/dns" inherit underline="always">
          To the zones
        </AnchorLink>
      </Trans>
    </Alert>
  );
}
