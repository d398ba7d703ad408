import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Group, Paper, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { AnchorLink } from "../shared/links";
import { ProblemNote } from "../shared/ProblemNote";
import { moment } from "../shared/words";

const KEY = ["gateway-enrolments", "list"];
const AGAIN_MS = 10_000;

/** The links with which a computer may still join. A link itself is shown once, on the page that makes it. */
export function OpenLinks() {
  const queries = useQueryClient();
  const { data = [] } = useQuery({
    queryKey: KEY,
    queryFn: async () =>
      body(await api.GET("/api/v1/gateway-enrolments", { params: { query: { waiting: true, limit: 500 } } })),
    refetchInterval: AGAIN_MS,
  });
  const withdraw = useMutation({
    mutationFn: (number: number) =>
      api.DELETE("/api/v1/gateway-enrolments/{number}", { params: { path: { number } } }),
    onSettled: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  if (data.length === 0) return null;
  return (
    <Paper withBorder p="md" mt="md" className="list" component="section" aria-label={t`Links to join`}>
      <Title order={2} size="h5" mb="xs">
        <Trans>Links to join</Trans>
      </Title>
      <Text size="sm" c="dimmed" mb="xs" className="measure">
        <Trans>
          The line to run is shown once. If it is lost,{" "}
          <AnchorLink to="/gateways/join" inherit underline="always">
            make the link again
          </AnchorLink>
          , with the same name; that replaces the old link.
        </Trans>
      </Text>
      <Stack gap="xs">
        {data.map(({ id, gateway, expires_at }) => {
          const until = moment(expires_at);
          return (
            <Group key={id} justify="space-between">
              <Text size="sm" className="name">
                <Trans>
                  A computer may join as {gateway} until {until}.
                </Trans>
              </Text>
              <Button
                size="compact-sm"
                variant="default"
                aria-label={t`Withdraw the link for ${gateway}`}
                loading={withdraw.isPending && withdraw.variables === id}
                onClick={() => withdraw.mutate(id)}
              >
                <Trans>Withdraw</Trans>
              </Button>
            </Group>
          );
        })}
        {withdraw.error && <ProblemNote error={withdraw.error} />}
      </Stack>
    </Paper>
  );
}
