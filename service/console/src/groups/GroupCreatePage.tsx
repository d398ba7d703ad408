import { t } from "@lingui/core/macro";
import { Stack } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { api, body } from "../api/client";
import { CreateForm, type Created } from "../shared/CreateForm";
import { PageHead } from "../shared/PageHead";
import { GroupFields } from "./GroupFields";
import { FIELDS, groupOf, type GroupForm } from "./queries";

const NEW: Created<GroupForm> = { initial: { name: "", members: [] }, fieldsOf: () => FIELDS };

export function GroupCreatePage() {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return (
    <Stack maw={760}>
      <PageHead
        title={t`Add a group`}
        about={t`People who reach the same resources, by the group’s policies.`}
      />
      <CreateForm
        label={t`Group`}
        created={NEW}
        create={async (form) => body(await api.POST("/api/v1/groups", { body: groupOf(form) }))}
        onCreated={async ({ name }) => {
          await queries.invalidateQueries({ queryKey: ["groups"] });
          notifications.show({ message: t`The group ${name} is created` });
          await navigate({ to: "/groups" });
        }}
        list="/groups"
      >
        {(form) => <GroupFields form={form} />}
      </CreateForm>
    </Stack>
  );
}
