import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Paper, Text } from "@mantine/core";
import { Suspense, useMemo } from "react";

import { ProblemNote } from "../shared/ProblemNote";
import { view } from "../shared/view";
import { Loading } from "../shared/Loading";
import { dropRows } from "./samples";
import { useSamples } from "./useSamples";

const DropsChart = view(() => import("./DropsChart"), "DropsChart");

/** The gateway's dropped packets by cause, over time. */
export function DropsSection({ name, hours }: { name: string; hours: number }) {
  const samples = useSamples(name, hours);
  const { rows, causes } = useMemo(() => dropRows(samples.data ?? []), [samples.data]);
  return (
    <section aria-label={t`Dropped packets`}>
      <Text fw={600} mb="xs">
        <Trans>Dropped packets</Trans>
      </Text>
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
