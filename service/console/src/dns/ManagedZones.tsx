import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Paper, Stack, Switch, Text, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { useMayWrite } from "../session/session";
import { notifyProblem, ProblemNote } from "../shared/ProblemNote";
import { managedZonesQuery, type Managed } from "./queries";

/** The zones in whose names devices open tunnels, each with its switch for the page of a denied name. */
export function ManagedZones() {
  const found = useInfiniteQuery(managedZonesQuery);
  if (found.isError) return <ProblemNote error={found.error} />;
  const zones = found.data?.pages.flatMap(({ rows }) => rows) ?? [];
  if (zones.length === 0) return null;
  return (
    <Paper withBorder p="md" mb="lg" component="section" aria-labelledby="managed-zones" className="list">
      <Title order={2} size="h5" id="managed-zones">
        <Trans>Managed zones</Trans>
      </Title>
      <Text size="sm" c="dimmed" className="measure" mb="sm">
        <Trans>
          Devices open tunnels for names in these zones. A browser does not say why a name is denied. Instead,
          Culvert on the device can show a page with the reason, for http:// addresses. For https:// addresses
          the browser then says that the connection was refused, and other programs, such as ssh, connect to
          the device itself.
        </Trans>
      </Text>
      <Text size="sm" mb="xs">
        <Trans>A denied name shows a page with the reason in:</Trans>
      </Text>
      <Stack gap="xs">
        {zones.map((zone) => (
          <ManagedZone key={zone.name} zone={zone} />
        ))}
      </Stack>
      {found.hasNextPage && (
        <Button
          variant="default"
          size="xs"
          mt="sm"
          loading={found.isFetchingNextPage}
          onClick={() => void found.fetchNextPage()}
        >
          <Trans>Show more</Trans>
        </Button>
      )}
    </Paper>
  );
}

function ManagedZone({ zone: { name, display_name: shown, denial_page } }: { zone: Managed }) {
  const mayWrite = useMayWrite("dns");
  const queries = useQueryClient();
  const choose = useMutation({
    mutationFn: async (chosen: boolean) =>
      body(
        await api.PUT("/api/v1/dns/managed-zones/{name}", {
          params: { path: { name } },
          body: { denial_page: chosen },
        }),
      ),
    onSuccess: async (now) => {
      await queries.invalidateQueries({ queryKey: managedZonesQuery.queryKey });
      notifications.show({
        message: now.denial_page
          ? t`A denied name in ${shown} shows a page with the reason`
          : t`A denied name in ${shown} is an error of the browser`,
      });
    },
    onError: notifyProblem,
  });
  return (
    <Switch
      label={<span className="name">{shown}</span>}
      aria-label={t`A denied name in ${shown} shows a page with the reason`}
      checked={choose.isPending ? choose.variables : denial_page}
      disabled={!mayWrite || choose.isPending}
      onChange={({ currentTarget }) => choose.mutate(currentTarget.checked)}
    />
  );
}
