import "@mantine/charts/styles.css";

import { AreaChart, type AreaChartProps } from "@mantine/charts";

import { locales } from "../locale/language";
import { timeTicks } from "./samples";

type Props = Pick<AreaChartProps, "h" | "series" | "valueFormatter" | "withLegend" | "yAxisProps"> & {
  rows: readonly { at: number }[];
  isStacked?: boolean;
};

/** Values over time. The library is large: a page loads this view on its own. */
export function TimeChart({ rows, isStacked = false, ...props }: Props) {
  const time = new Intl.DateTimeFormat(locales(), { hour: "2-digit", minute: "2-digit" });
  // The library also formats values that are no time.
  const clock = (at: unknown) => (Number.isFinite(Number(at)) ? time.format(Number(at)) : "");
  return (
    <AreaChart
      data={[...rows]}
      dataKey="at"
      type={isStacked ? "stacked" : "default"}
      curveType="step"
      withDots={false}
      strokeWidth={1.5}
      tickLine="y"
      connectNulls={false}
      areaChartProps={{ accessibilityLayer: false }}
      areaProps={{ isAnimationActive: false }}
      xAxisProps={{
        type: "number",
        scale: "time",
        domain: ["dataMin", "dataMax"],
        // The library repeats a label where two of its ticks share a minute.
        ticks: timeTicks(rows.map(({ at }) => at)),
        tickFormatter: clock,
      }}
      tooltipProps={{ labelFormatter: clock }}
      {...props}
    />
  );
}
