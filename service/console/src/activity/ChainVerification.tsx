import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Button, Group, Text, Tooltip } from "@mantine/core";
import { IconLink, IconLinkOff } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { ProblemNote } from "../shared/ProblemNote";
import { useNow } from "../shared/useNow";
import { ago, day } from "../shared/words";

/** The verification of the log's chains. A long log takes a while, so it is verified on request. */
export function ChainVerification() {
  const now = useNow();
  const chains = useQuery({
    queryKey: ["verification"],
    queryFn: async () => body(await api.GET("/api/v1/audit/verification")),
    staleTime: Infinity,
  });
  const retention = useQuery({
    queryKey: ["retention"],
    queryFn: async () => body(await api.GET("/api/v1/audit/retention")),
  });
  if (chains.isError) return <ProblemNote error={chains.error} />;
  const { broken, lines, ends } = chains.data ?? { broken: null, lines: 0, ends: [] };
  return (
    <Group gap="sm" mb="md" role="status" aria-label={t`The log's chains`}>
      {chains.data === undefined ? (
        <Badge size="lg" variant="light" color="gray" tt="none">
          <Trans>being verified…</Trans>
        </Badge>
      ) : broken === null ? (
        <Tooltip
          label={ends.map(({ chain, seq }) => t`chain ${chain}: ${seq}`).join(", ")}
          multiline
          maw={320}
        >
          <Badge size="lg" variant="light" color="culvert" tt="none" leftSection={<IconLink size={14} />}>
            {plural(lines, { one: "verified: # line unchanged", other: "verified: # lines unchanged" })}
          </Badge>
        </Tooltip>
      ) : (
        <Badge
          size="lg"
          h="auto"
          variant="light"
          color="red"
          tt="none"
          leftSection={<IconLinkOff size={14} />}
          styles={{ label: { whiteSpace: "normal" } }}
        >
          <Trans>
            broken at chain {broken.chain}, line {broken.seq}: {broken.why}
          </Trans>
        </Badge>
      )}
      {chains.data !== undefined && (
        <Text size="sm" c="dimmed">
          {ago(chains.dataUpdatedAt, now)}
        </Text>
      )}
      {retention.data?.kept_since != null && (
        <Text size="sm" c="dimmed">
          {t`kept since ${day(retention.data.kept_since)}`}
          {retention.data.keep_days !== null &&
            `, ${plural(retention.data.keep_days, { one: "for # day", other: "for # days" })}`}
        </Text>
      )}
      <Button
        size="compact-sm"
        variant="subtle"
        onClick={() => void chains.refetch()}
        loading={chains.isFetching}
      >
        <Trans>Verify again</Trans>
      </Button>
    </Group>
  );
}
