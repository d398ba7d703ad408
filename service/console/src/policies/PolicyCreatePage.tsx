import { t } from "@lingui/core/macro";
import { Stack } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { api, body } from "../api/client";
import { CreateForm, type Created } from "../shared/CreateForm";
import { PageHead } from "../shared/PageHead";
import { PolicyFields } from "./PolicyFields";
import { FIELDS, fieldsOf, newPolicy, policyOf, VALIDATE, type PolicyForm } from "./form";
import { PolicyEffect } from "./PolicyEffect";

const NEW: Omit<Created<PolicyForm>, "initial"> = { fieldsOf, renamed: FIELDS, validate: VALIDATE };

/** The address may name the person and the resource of the policy. */
export function PolicyCreatePage() {
  const { user, resource } = useSearch({ from: "/frame/policies/new" });
  const initial: PolicyForm = {
    ...newPolicy(Intl.DateTimeFormat().resolvedOptions().timeZone),
    ...(user !== undefined && { whose: "user", who: user }),
    ...(resource !== undefined && { resources: [resource] }),
    ...(user !== undefined && resource !== undefined && { name: t`${user} to ${resource}` }),
  };
  const navigate = useNavigate();
  const queries = useQueryClient();
  return (
    <Stack maw={760}>
      <PageHead
        title={t`Add a policy`}
        about={t`Permits people to reach resources while its conditions are met.`}
      />
      <CreateForm
        label={t`Policy`}
        created={{ ...NEW, initial }}
        create={async (form) => body(await api.POST("/api/v1/policies", { body: policyOf(form) }))}
        onCreated={async ({ name }) => {
          await queries.invalidateQueries({ queryKey: ["policies"] });
          notifications.show({ message: t`${name} is in force` });
          // Back leads to the page that has led here, such as the access check.
          await navigate({ to: "/policies", replace: true });
        }}
        list="/policies"
      >
        {(form, onBreaks) => (
          <>
            <PolicyFields form={form} />
            <PolicyEffect values={form.values} onBreaks={onBreaks} />
          </>
        )}
      </CreateForm>
    </Stack>
  );
}
