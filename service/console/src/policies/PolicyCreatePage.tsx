import { t } from "@lingui/core/macro";
import { Stack } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { api, body } from "../api/client";
import { POLICY_NAME_MAX } from "../api/contract";
import { CreateForm, type Created } from "../shared/CreateForm";
import { PageHead } from "../shared/PageHead";
import { useSuggestion } from "../shared/suggestion";
import { PolicyFields } from "./PolicyFields";
import { FIELDS, fieldsOf, newPolicy, policyOf, VALIDATE, type PolicyForm } from "./form";
import { PolicyEffect } from "./PolicyEffect";

const NEW: Omit<Created<PolicyForm>, "initial"> = { fieldsOf, renamed: FIELDS, validate: VALIDATE };

/** "alice to wiki"; empty until both are chosen. */
function suggestedPolicy({ who, resources }: Pick<PolicyForm, "who" | "resources">): string {
  const reached = resources.join(", ");
  return who === "" || reached === "" ? "" : t`${who} to ${reached}`.slice(0, POLICY_NAME_MAX);
}

function NewFields({ form }: { form: UseFormReturnType<PolicyForm> }) {
  const suggest = useSuggestion(form.values.name, (name) => form.setFieldValue("name", name));
  return <PolicyFields form={form} onSubject={(chosen) => suggest(suggestedPolicy(chosen))} />;
}

/** The address may name the person and the resource of the policy, and the name whose access check has led here. */
export function PolicyCreatePage() {
  const { user, resource, check } = useSearch({ from: "/frame/policies/new" });
  const initial: PolicyForm = {
    ...newPolicy(Intl.DateTimeFormat().resolvedOptions().timeZone),
    ...(user !== undefined && { whose: "user", who: user }),
    ...(resource !== undefined && { resources: [resource] }),
    name: suggestedPolicy({ who: user ?? "", resources: resource === undefined ? [] : [resource] }),
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
          await navigate({
            ...(user !== undefined && check !== undefined
              ? { to: "/access", search: { user, name: check } }
              : { to: "/policies" }),
            replace: true,
          });
        }}
        list="/policies"
      >
        {(form, onBreaks) => (
          <>
            <NewFields form={form} />
            <PolicyEffect values={form.values} onBreaks={onBreaks} />
          </>
        )}
      </CreateForm>
    </Stack>
  );
}
