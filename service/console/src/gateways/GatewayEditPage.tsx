import { plural, t } from "@lingui/core/macro";
import { Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";

import { api } from "../api/client";
import { useGateways } from "../live/live";
import { useMayWrite } from "../session/session";
import { EditForm, type Edited } from "../shared/EditForm";
import { LoadedPage } from "../shared/LoadedPage";
import { PageHead } from "../shared/PageHead";
import {
  FIELDS,
  formOf,
  gatewayOf,
  RENAMED,
  VALIDATE,
  type GatewayForm,
  type GatewayIn,
  type GatewayOut,
} from "./form";
import { GatewayFields } from "./GatewayFields";
import { gatewayQuery } from "./queries";

const EDITED: Edited<GatewayOut, GatewayForm, GatewayIn> = {
  query: gatewayQuery,
  formOf,
  bodyOf: gatewayOf,
  fieldsOf: () => FIELDS,
  renamed: RENAMED,
  validate: VALIDATE,
};

/** A gateway's settings. Its name stays, because its certificate and its keys are made for it. */
export function GatewayEditPage() {
  const { name } = useParams({ from: "/frame/gateways/edit/$name" });
  const navigate = useNavigate();
  const mayWrite = useMayWrite("gateways");
  const query = useQuery(gatewayQuery(name));
  const open = useGateways().rows?.get(name)?.tunnels;
  return (
    <LoadedPage query={query} name={name} list="/gateways">
      {(found) => (
        <Stack maw={760}>
          <PageHead title={t`Change ${name}`} about={whatCloses(open)} />
          <EditForm
            label={t`Gateway`}
            found={found}
            edited={EDITED}
            mayWrite={mayWrite}
            write={(body, etag) =>
              api.PUT("/api/v1/gateways/{name}", {
                params: { path: { name }, header: { "if-match": etag } },
                body,
              })
            }
            onSaved={() => void navigate({ to: "/gateways/of/$name", params: { name } })}
          >
            {(form) => <GatewayFields form={form} isNew={false} />}
          </EditForm>
        </Stack>
      )}
    </LoadedPage>
  );
}

/** `open`: the number of the gateway's open tunnels; undefined until it is known. */
function whatCloses(open: number | undefined): string | undefined {
  if (open === undefined) return undefined;
  return plural(open, {
    0: "No tunnel is open through it.",
    one: "# tunnel is open through it. If it does not fit the change, it closes and opens again.",
    other: "# tunnels are open through it. Those that do not fit the change close and open again.",
  });
}
