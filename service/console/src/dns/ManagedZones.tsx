import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Paper, Stack, Switch, Text, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "../api/client";
import { useMayWrite } from "../session/session";
import { notifyProblem, ProblemNote } from "../shared/ProblemNote";

type Managed = Schemas["ManagedZoneOut"];

const KEY = ["dns", "managed"];

/** The zones in whose names devices open tunnels, each with its switch for the page of a refused name. */
export function ManagedZones() {
  const found = useQuery({
    queryKey: KEY,
    queryFn: async () => body(await api.GET("/api/v1/dns/managed-zones")),
  });
  if (found.isError) return <ProblemNote error={found.error} />;
  if (!found.data?.length) return null;
  return (
    <Paper withBorder p="md" mb="lg" component="section" aria-labelledby="managed-zones">
      <Title order={2} size="h5" id="managed-zones">
        <Trans>Managed zones</Trans>
      </Title>
      <Text size="sm" c="dimmed" maw={760} mb="sm">
        <Trans>
          Devices open tunnels for names in these zones. A browser gives no reason when access to a name is
          refused; a page of the device can, over plain HTTP. Other programs then connect to the device itself
          instead of getting an error.
        </Trans>
      </Text>
      <Text size="sm" mb="xs">
        <Trans>A refused name shows a page with the reason in:</Trans>
      </Text>
      <Stack gap="xs">
        {found.data.toSorted(byShownName).map((zone) => (
          <ManagedZone key={zone.name} zone={zone} />
        ))}
      </Stack>
    </Paper>
  );
}

/** The controller sorts by the encoded names, which nobody sees here. */
const byShownName = (a: Managed, b: Managed) => a.display_name.localeCompare(b.display_name);

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
      await queries.invalidateQueries({ queryKey: KEY });
      notifications.show({
        message: now.denial_page
          ? t`A refused name in ${shown} shows a page with the reason`
          : t`A refused name in ${shown} is an error of the browser`,
      });
    },
    onError: notifyProblem,
  });
  return (
    <Switch
      label={<span className="name">{shown}</span>}
      aria-label={t`A refused name in ${shown} shows a page with the reason`}
      checked={choose.isPending ? choose.variables : denial_page}
      disabled={!mayWrite || choose.isPending}
      onChange={({ currentTarget }) => choose.mutate(currentTarget.checked)}
    />
  );
}
