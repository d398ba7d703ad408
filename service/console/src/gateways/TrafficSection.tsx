import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Group, Paper, SegmentedControl, Text } from "@mantine/core";
import { Suspense, useMemo } from "react";

import { ProblemNote } from "../shared/ProblemNote";
import { view } from "../shared/view";
import { Loading } from "../shared/Loading";
import { trafficRows } from "./samples";
import { HOURS, useSamples } from "./useSamples";

const TrafficChart = view(() => import("./TrafficChart"), "TrafficChart");

/** The gateway's rates and tunnels over time. The period is also that of the dropped packets. */
export function TrafficSection({
  name,
  hours,
  onHours,
}: {
  name: string;
  hours: number;
  onHours: (hours: number) => void;
}) {
  const samples = useSamples(name, hours);
  const rows = useMemo(() => trafficRows(samples.data ?? [], hours), [samples.data, hours]);
  const isQuiet = rows.every(({ received, sent, tunnels }) => !received && !sent && !tunnels);
  return (
    <section aria-label={t`Traffic`}>
      <Group justify="space-between" mb="xs">
        <Text fw={600}>
          <Trans>Traffic</Trans>
        </Text>
        <SegmentedControl
          size="xs"
          aria-label={t`Period`}
          data={HOURS.map((one) => ({ value: String(one), label: t`${one} h` }))}
          value={String(hours)}
          onChange={(chosen) => onHours(Number(chosen))}
        />
      </Group>
      <Paper withBorder p="md">
        {samples.isError ? (
          <ProblemNote error={samples.error} />
        ) : samples.isPending ? (
          <Loading forWhat={t`samples`} />
        ) : rows.length < 2 ? (
          <Text size="sm" c="dimmed">
            <Trans>Counters are read every ten seconds while the gateway is online.</Trans>
          </Text>
        ) : isQuiet ? (
          <Text size="sm" c="dimmed">
            <Trans>No tunnel was open in this time, and no packet passed.</Trans>
          </Text>
        ) : (
          <Suspense fallback={<Loading forWhat={t`the chart`} />}>
            <TrafficChart rows={rows} />
          </Suspense>
        )}
      </Paper>
    </section>
  );
}
