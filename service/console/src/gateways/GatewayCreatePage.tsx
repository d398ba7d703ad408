import { t } from "@lingui/core/macro";
import { Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { api, body } from "../api/client";
import { CreateForm, type Created } from "../shared/CreateForm";
import { Loading } from "../shared/Loading";
import { PageHead } from "../shared/PageHead";
import { BundleDialog } from "./BundleDialog";
import { FIELDS, gatewayOf, NEW, RENAMED, VALIDATE, type GatewayForm } from "./form";
import { GatewayFields } from "./GatewayFields";
import { freePoolsQuery } from "./queries";

const CREATED: Omit<Created<GatewayForm>, "initial"> = {
  fieldsOf: () => FIELDS,
  renamed: RENAMED,
  validate: VALIDATE,
};

/** Registers a gateway, then offers the bundle with which it starts. */
export function GatewayCreatePage() {
  const navigate = useNavigate();
  const [made, setMade] = useState<string | null>(null);
  const free = useQuery(freePoolsQuery);
  return (
    <Stack maw={760}>
      <PageHead
        title={t`Add a gateway`}
        about={t`A gateway ends tunnels between the internet and your network.`}
      />
      {free.isPending ? (
        <Loading forWhat={t`a free address pool`} />
      ) : (
        <CreateForm
          label={t`Gateway`}
          created={{ ...CREATED, initial: { ...NEW, pool: free.data?.pool ?? "" } }}
          create={async (form) => body(await api.POST("/api/v1/gateways", { body: gatewayOf(form) }))}
          onCreated={({ name }) => setMade(name)}
          list="/gateways"
        >
          {(form) => <GatewayFields form={form} isNew free={free.data} />}
        </CreateForm>
      )}
      {made !== null && (
        <BundleDialog
          name={made}
          onClose={() => void navigate({ to: "/gateways/of/$name", params: { name: made } })}
        />
      )}
    </Stack>
  );
}
