import { t } from "@lingui/core/macro";
import { Stack } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { api, body } from "../api/client";
import { CreateForm, type Created } from "../shared/CreateForm";
import { PageHead } from "../shared/PageHead";
import { BundleDialog } from "./BundleDialog";
import { FIELDS, gatewayOf, NEW, RENAMED, VALIDATE, type GatewayForm } from "./form";
import { GatewayFields } from "./GatewayFields";

const CREATED: Created<GatewayForm> = {
  initial: NEW,
  fieldsOf: () => FIELDS,
  renamed: RENAMED,
  validate: VALIDATE,
};

/** Registers a gateway, then offers the bundle with which it starts. */
export function GatewayCreatePage() {
  const navigate = useNavigate();
  const [made, setMade] = useState<string | null>(null);
  return (
    <Stack maw={760}>
      <PageHead
        title={t`Add a gateway`}
        about={t`A gateway ends tunnels between the internet and your network.`}
      />
      <CreateForm
        label={t`Gateway`}
        created={CREATED}
        create={async (form) => body(await api.POST("/api/v1/gateways", { body: gatewayOf(form) }))}
        onCreated={({ name }) => setMade(name)}
        list="/gateways"
      >
        {(form) => <GatewayFields form={form} isNew />}
      </CreateForm>
      {made !== null && (
        <BundleDialog
          name={made}
          onClose={() => void navigate({ to: "/gateways/of/$name", params: { name: made } })}
        />
      )}
    </Stack>
  );
}
