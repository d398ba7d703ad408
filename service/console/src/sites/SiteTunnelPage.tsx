import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Group, Paper, SimpleGrid, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";

import { api, type Tagged } from "../api/client";
import { shown } from "../resources/target";
import { useMayWrite } from "../session/session";
import { Name } from "../shared/Name";
import { useReturn } from "../shared/lists";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { DeleteButton } from "../shared/DeleteButton";
import { EditForm, type Edited } from "../shared/EditForm";
import { LoadedPage } from "../shared/LoadedPage";
import { AnchorLink } from "../shared/links";
import { TimeSince } from "../shared/TimeSince";
import { PageHead } from "../shared/PageHead";
import { offerUndo } from "../shared/undo";
import { SiteTunnelFields } from "./SiteTunnelFields";
import { changeOf, fieldsOf, formOf, stateOf, VALIDATE, type SiteTunnelForm } from "./form";
import { siteTunnelQuery, type End, type SiteTunnel, type SiteTunnelChange } from "./queries";

const EDITED: Edited<SiteTunnel, SiteTunnelForm, SiteTunnelChange> = {
  query: siteTunnelQuery,
  formOf,
  bodyOf: changeOf,
  fieldsOf,
  validate: VALIDATE,
};

export function SiteTunnelPage() {
  const { name } = useParams({ from: "/frame/site-tunnels/of/$name" });
  const found = useQuery(siteTunnelQuery(name));
  return (
    <LoadedPage query={found} name={name} list="/site-tunnels">
      {(it) => <SiteTunnelEditor key={name} found={it} />}
    </LoadedPage>
  );
}

function SiteTunnelEditor({ found }: { found: Tagged<SiteTunnel> }) {
  const { name, ends, reason, effective_suite, keyed_at } = found.row;
  const mayWrite = useMayWrite("site-tunnels");
  const [deleting, { open, close }] = useDisclosure();
  const { word, colour } = stateOf(found.row);
  return (
    <Stack gap="xl">
      <PageHead
        isWide
        title={name}
        about={
          <>
            <Badge variant="light" color={colour} tt="none" mr="xs">
              {word}
            </Badge>
            {reason}
          </>
        }
      >
        {mayWrite && <DeleteButton onClick={open} />}
      </PageHead>
      <div className="beside">
        <Stack gap="sm">
          <SimpleGrid cols={{ base: 1, sm: 2 }} maw={960}>
            {ends.map((end) => (
              <EndCard key={end.gateway} end={end} />
            ))}
          </SimpleGrid>
          <Text size="sm" c="dimmed">
            <Trans>
              {effective_suite}; keys made <TimeSince at={keyed_at} never={t`not yet`} />
            </Trans>
          </Text>
        </Stack>
        <EditForm
          label={t`Site tunnel`}
          found={found}
          edited={EDITED}
          mayWrite={mayWrite}
          write={(body, etag) =>
            api.PUT("/api/v1/site-tunnels/{name}", {
              params: { path: { name }, header: { "if-match": etag } },
              body,
            })
          }
          saidOf={(name) => t`${name} is saved; traffic that both versions permit continues`}
        >
          {(form) => <SiteTunnelFields form={form} suite={effective_suite} />}
        </EditForm>
      </div>
      {deleting && <Delete tunnel={found.row} onClose={close} />}
    </Stack>
  );
}

function EndCard({
  end: { gateway, address, online, resources = [], profiles, targets = [] },
}: {
  end: End;
}) {
  return (
    <Paper withBorder p="md" component="section" aria-label={t`Behind ${gateway}`}>
      <Group justify="space-between" wrap="nowrap" mb="xs">
        <Stack gap={0} miw={0}>
          <AnchorLink to="/gateways/of/$name" params={{ name: gateway }} fw={600} c="bright" className="name">
            <Name>{gateway}</Name>
          </AnchorLink>
          <Text size="xs" c="dimmed" className="mono">
            {address}
          </Text>
        </Stack>
        <Badge variant="light" tt="none" flex="none" color={online ? "culvert" : "red"}>
          {online ? t`online` : t`offline`}
        </Badge>
      </Group>
      {resources.length > 0 && (
        <Text size="sm" className="name">
          {resources.map((name, at) => (
            <Text span inherit key={name}>
              {at > 0 && ", "}
              <AnchorLink to="/resources/of/$name" params={{ name }} inherit>
                {name}
              </AnchorLink>
            </Text>
          ))}
        </Text>
      )}
      {[...profiles, ...targets].map((target) => (
        <Text key={shown(target)} size="xs" c="dimmed" className="mono">
          {shown(target)}
        </Text>
      ))}
    </Paper>
  );
}

function Delete({ tunnel, onClose }: { tunnel: SiteTunnel; onClose: () => void }) {
  const { name, ends } = tunnel;
  const [one, other] = ends.map(({ gateway }) => gateway);
  const goBack = useReturn();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => api.DELETE("/api/v1/site-tunnels/{name}", { params: { path: { name } } }),
    onSuccess: async () => {
      offerUndo(t`${name} is deleted`, t`${name} is there again`, () =>
        api.POST("/api/v1/site-tunnels", { body: { name, ...changeOf(formOf(tunnel)) } }),
      );
      await goBack("/site-tunnels");
      queries.removeQueries({ queryKey: ["site-tunnels", "one", name] });
    },
  });
  return (
    <ConfirmDialog onClose={onClose} title={t`Delete ${name}?`} act={t`Delete ${name}`} mutation={remove}>
      <Text size="sm">
        <Trans>
          Hosts behind {one} and {other} do not reach each other through it any more.
        </Trans>
      </Text>
    </ConfirmDialog>
  );
}
