import { t } from "@lingui/core/macro";

import { locales } from "../locale/language";
import { rate } from "../shared/words";
import { TimeChart } from "./TimeChart";
import { valueTicks, type TrafficRow } from "./samples";

// The same for both charts, so that their times stand one above the other.
const AXIS = { width: 84 };

/** The rates of a gateway, and below them its open tunnels. */
export function TrafficChart({ rows }: { rows: readonly TrafficRow[] }) {
  const rates = valueTicks(most(rows.flatMap(({ received, sent }) => [received, sent])));
  const counts = valueTicks(most(rows.map(({ tunnels }) => tunnels)), 1, 2);
  return (
    <>
      <TimeChart
        h={200}
        rows={rows}
        withLegend
        valueFormatter={(bits) => rate(bits / 8)}
        yAxisProps={axis(rates)}
        series={[
          { name: "received", label: t`From devices and sites`, color: "culvert.6" },
          { name: "sent", label: t`To devices and sites`, color: "blue.6" },
        ]}
      />
      <TimeChart
        h={130}
        rows={rows}
        withLegend
        valueFormatter={(count) => count.toLocaleString(locales())}
        yAxisProps={axis(counts)}
        series={[{ name: "tunnels", label: t`Open tunnels`, color: "gray.6" }]}
      />
    </>
  );
}

const axis = (ticks: number[]) => ({ ...AXIS, ticks, domain: [0, ticks.at(-1) ?? 1] as [number, number] });

const most = (values: readonly (number | null)[]): number => Math.max(0, ...values.map((it) => it ?? 0));
