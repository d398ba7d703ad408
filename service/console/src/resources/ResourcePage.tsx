import { plural, t } from "@lingui/core/macro";
import { Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";

import { api, type Tagged } from "../api/client";
import { useTraffic, useTunnelsBy } from "../live/live";
import { useMayWrite } from "../session/session";
import { useReturn } from "../shared/lists";
import { DeleteButton } from "../shared/DeleteButton";
import { EditForm, type Edited } from "../shared/EditForm";
import { encoded } from "../shared/encoded";
import { LoadedPage } from "../shared/LoadedPage";
import { PageHead } from "../shared/PageHead";
import { ResourceDeleteDialog } from "./ResourceDeleteDialog";
import { ResourceEffect } from "./ResourceEffect";
import { ResourceFields } from "./ResourceFields";
import { ResourceAccess, ResourceDns } from "./ResourceSections";
import { fieldsOf, formOf, resourceOf, VALIDATE, type ResourceForm } from "./form";
import { resourceQuery, type Resource, type ResourceIn } from "./queries";
import { TunnelTable } from "../tunnels/TunnelTable";

const EDITED: Edited<Resource, ResourceForm, ResourceIn> = {
  query: resourceQuery,
  shownOf: ({ display_name }) => display_name,
  formOf,
  bodyOf: resourceOf,
  fieldsOf,
  validate: VALIDATE,
};

export function ResourcePage() {
  const { name } = useParams({ from: "/frame/resources/of/$name" });
  const found = useQuery(resourceQuery(name));
  return (
    <LoadedPage query={found} name={name} list="/resources">
      {(it) => <ResourceEditor key={name} found={it} />}
    </LoadedPage>
  );
}

function ResourceEditor({ found }: { found: Tagged<Resource> }) {
  const { name, fqdn, display_name } = found.row;
  const inDns = encoded(fqdn, display_name);
  const goBack = useReturn();
  const mayWrite = useMayWrite("resources");
  const [deleting, { open, close }] = useDisclosure();
  const tunnels = useTunnelsBy("resource").get(name) ?? [];
  const rates = useTraffic().rows ?? undefined;
  return (
    <Stack gap="xl">
      <PageHead
        isWide
        title={display_name}
        about={
          inDns === null
            ? t`Known as ${name} in policies and lists.`
            : t`Known as ${name} in policies and lists, as ${inDns} in the DNS.`
        }
      >
        {mayWrite && <DeleteButton onClick={open} />}
      </PageHead>
      <div className="beside">
        <Stack gap="xl">
          <section aria-label={t`Open tunnels`}>
            <Text fw={600} mb="xs">
              {tunnels.length === 0
                ? t`No tunnel is open`
                : plural(tunnels.length, { one: "# open tunnel", other: "# open tunnels" })}
            </Text>
            {tunnels.length > 0 && <TunnelTable tunnels={tunnels} {...(rates && { rates })} />}
          </section>
          <ResourceDns fqdn={fqdn} />
          <ResourceAccess name={name} />
        </Stack>
        <EditForm
          label={t`Resource`}
          found={found}
          edited={EDITED}
          mayWrite={mayWrite}
          write={(body, etag) =>
            api.PUT("/api/v1/resources/{name}", {
              params: { path: { name }, header: { "if-match": etag } },
              body,
            })
          }
        >
          {(form, before, onBreaks) => (
            <>
              <ResourceFields form={form} />
              {mayWrite && form.isDirty() && (
                <ResourceEffect values={form.values} before={before} onBreaks={onBreaks} />
              )}
            </>
          )}
        </EditForm>
      </div>
      {deleting && (
        <ResourceDeleteDialog resource={found.row} onClose={close} onDeleted={() => goBack("/resources")} />
      )}
    </Stack>
  );
}
