import { t } from "@lingui/core/macro";
import { Stack } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";

import { api, type Tagged } from "../api/client";
import { useMayWrite } from "../session/session";
import { useReturn } from "../shared/lists";
import { DeleteButton } from "../shared/DeleteButton";
import { EditForm, type Edited } from "../shared/EditForm";
import { LoadedPage } from "../shared/LoadedPage";
import { PageHead } from "../shared/PageHead";
import { useNow } from "../shared/useNow";
import { PolicyDeleteDialog } from "./PolicyDeleteDialog";
import { PolicyFields } from "./PolicyFields";
import { FIELDS, fieldsOf, formOf, lastUseOf, policyOf, VALIDATE, type PolicyForm } from "./form";
import { PolicyEffect } from "./PolicyEffect";
import { policyQuery, type Policy, type PolicyIn } from "./queries";

const EDITED: Edited<Policy, PolicyForm, PolicyIn> = {
  query: policyQuery,
  formOf: (policy) => formOf(policy, Intl.DateTimeFormat().resolvedOptions().timeZone),
  bodyOf: policyOf,
  fieldsOf,
  renamed: FIELDS,
  validate: VALIDATE,
};

export function PolicyPage() {
  const { name } = useParams({ from: "/frame/policies/of/$name" });
  const found = useQuery(policyQuery(name));
  return (
    <LoadedPage query={found} name={name} list="/policies">
      {(it) => <PolicyEditor key={name} found={it} />}
    </LoadedPage>
  );
}

function PolicyEditor({ found }: { found: Tagged<Policy> }) {
  const { name } = found.row;
  const navigate = useNavigate();
  const goBack = useReturn();
  const mayWrite = useMayWrite("policies");
  const [deleting, { open, close }] = useDisclosure();
  return (
    <Stack>
      <PageHead title={name} about={lastUseOf(found.row, useNow())}>
        {mayWrite && <DeleteButton onClick={open} />}
      </PageHead>
      <EditForm
        label={t`Policy`}
        found={found}
        edited={EDITED}
        mayWrite={mayWrite}
        write={(body, etag) =>
          api.PUT("/api/v1/policies/{name}", {
            params: { path: { name }, header: { "if-match": etag } },
            body,
          })
        }
        onSaved={(saved) => {
          if (saved.name !== name)
            void navigate({ to: "/policies/of/$name", params: { name: saved.name }, replace: true });
        }}
      >
        {(form, before, onBreaks) => (
          <>
            <PolicyFields
              form={form}
              named={
                before.user_display_name === null ? {} : { [before.user ?? ""]: before.user_display_name }
              }
            />
            {mayWrite && form.isDirty() && (
              <PolicyEffect values={form.values} before={before} onBreaks={onBreaks} />
            )}
          </>
        )}
      </EditForm>
      {deleting && (
        <PolicyDeleteDialog policy={found.row} onClose={close} onDeleted={() => goBack("/policies")} />
      )}
    </Stack>
  );
}
