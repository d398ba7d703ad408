import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Alert, List, Stack, Text } from "@mantine/core";

import { api, body, type Schemas } from "../api/client";
import { allPolicies } from "../policies/queries";
import { DeleteDialog } from "../shared/DeleteDialog";
import { AnchorLink } from "../shared/links";
import { closes } from "../shared/words";
import { resourceUseQuery, type Resource } from "./queries";
import { restored } from "./restored";

type Effect = Schemas["UseOut"];

export function ResourceDeleteDialog({
  resource,
  ...rest
}: {
  resource: Resource;
  onClose: () => void;
  onDeleted: () => Promise<void>;
}) {
  const { name, display_name: shown } = resource;
  return (
    <DeleteDialog
      name={shown}
      use={resourceUseQuery(name)}
      rowKey={["resources", "one", name]}
      remove={async () => {
        const policies = await allPolicies({ resource: name });
        const params = { path: { name } };
        return { ...body(await api.DELETE("/api/v1/resources/{name}", { params })), policies };
      }}
      restore={({ policies }) => restored(resource, policies)}
      restored={t`${shown} is published again`}
      mayDelete={(effect) => effect?.site_tunnels.length === 0}
      {...rest}
    >
      {(effect) => (
        <Stack>
          <List size="sm" spacing={4}>
            <List.Item>
              <Trans>Withdraws its records from DNS</Trans>
            </List.Item>
            <List.Item>{closes(effect.tunnels)}</List.Item>
            <List.Item>
              {effect.people === 0
                ? t`No person can reach it now`
                : plural(effect.people, {
                    one: "# person cannot reach it any more",
                    other: "# people cannot reach it any more",
                  })}
            </List.Item>
            {effect.policies_deleted.length > 0 && (
              <List.Item>
                <Trans>
                  Deletes policies without other resources:{" "}
                  <Text span className="name" inherit>
                    {effect.policies_deleted.join(", ")}
                  </Text>
                </Trans>
              </List.Item>
            )}
          </List>
          {effect.site_tunnels.length > 0 && <Carriers names={effect.site_tunnels} />}
        </Stack>
      )}
    </DeleteDialog>
  );
}

function Carriers({ names }: { names: Effect["site_tunnels"] }) {
  return (
    <Alert color="yellow" variant="light" title={t`The resource cannot be deleted now`}>
      {plural(names.length, { one: "A site tunnel carries it:", other: "Site tunnels carry it:" })}{" "}
      {names.map((name, at) => (
        <Text span inherit key={name}>
          {at > 0 && ", "}
          <AnchorLink
            to="/site-tunnels/of/$name"
            params={{ name }}
            inherit
            c="inherit"
            underline="always"
            className="name"
          >
            {name}
          </AnchorLink>
        </Text>
      ))}
      . <Trans>Remove it from there first.</Trans>
    </Alert>
  );
}
