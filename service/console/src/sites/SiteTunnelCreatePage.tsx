import { t } from "@lingui/core/macro";
import { Stack } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { api, body } from "../api/client";
import { CreateForm, type Created } from "../shared/CreateForm";
import { PageHead } from "../shared/PageHead";
import { SiteTunnelFields } from "./SiteTunnelFields";
import { fieldsOf, NEW, siteTunnelOf, VALIDATE, type SiteTunnelForm } from "./form";

const CREATED: Created<SiteTunnelForm> = { initial: NEW, fieldsOf, validate: VALIDATE };

export function SiteTunnelCreatePage() {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return (
    <Stack maw={960}>
      <PageHead
        title={t`Add a site tunnel`}
        about={t`Between two gateways, for hosts without Culvert; always on.`}
      />
      <CreateForm
        label={t`Site tunnel`}
        created={CREATED}
        create={async (form) => body(await api.POST("/api/v1/site-tunnels", { body: siteTunnelOf(form) }))}
        onCreated={async ({ name }) => {
          await queries.invalidateQueries({ queryKey: ["site-tunnels"] });
          notifications.show({
            message: t`${name} is created; it opens as soon as both gateways have its keys`,
          });
          await navigate({ to: "/site-tunnels/of/$name", params: { name } });
        }}
        list="/site-tunnels"
      >
        {(form) => <SiteTunnelFields form={form} isNew />}
      </CreateForm>
    </Stack>
  );
}
