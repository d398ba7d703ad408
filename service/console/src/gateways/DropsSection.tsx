import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Group, Paper, SegmentedControl, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useMemo } from "react";

import { api, body } from "../api/client";
import { ProblemNote } from "../shared/ProblemNote";
import { view } from "../shared/view";
import { Loading } from "../shared/Loading";
import { dropRows, type Sample } from "./samples";

const DropsChart = view(() => import("./DropsChart"), "DropsChart");
const HOURS = ["1", "6", "24"] as const;
const AGAIN_MS = 10_000;

export function useSamples(name: string, hours: number) {
  return useQuery({
    queryKey: ["samples", name, hours],
    queryFn: async () =>
      body(
        await api.GET("/api/v1/gateways/{name}/samples", { params: { path: { name }, query: { hours } } }),
      ),
    refetchInterval: AGAIN_MS,
    placeholderData: (before: Sample[] | undefined) => before,
  });
}

/** The gateway's dropped packets by cause, over time. */
export function DropsSection({
  name,
  hours,
  onHours,
}: {
  name: string;
  hours: number;
  onHours: (hours: number) => void;
}) {
  const samples = useSamples(name, hours);
  const { rows, causes } = useMemo(() => dropRows(samples.data ?? []), [samples.data]);
  return (
    <section aria-label={t`Dropped packets`}>
      <Group justify="space-between" mb="xs">
        <Text fw={600}>
          <Trans>Dropped packets</Trans>
        </Text>
        <SegmentedControl
          size="xs"
          aria-label={t`Period`}
          data={HOURS.map((one) => ({ value: one, label: t`${one} h` }))}
          value={String(hours)}
          onChange={(chosen) => onHours(Number(chosen))}
        />
      </Group>
      <Paper withBorder p="md">
        {samples.isError ? (
          <ProblemNote error={samples.error} />
        ) : samples.isPending ? (
          <Loading forWhat={t`samples`} />
        ) : causes.length === 0 ? (
          <Text size="sm" c="dimmed">
            {rows.length === 0
              ? t`Counters are read every ten seconds while the gateway is online.`
              : t`None.`}
          </Text>
        ) : (
          <Suspense fallback={<Loading forWhat={t`the chart`} />}>
            <DropsChart rows={rows} causes={causes} />
          </Suspense>
        )}
      </Paper>
    </section>
  );
}
