import "@mantine/charts/styles.css";

import { AreaChart } from "@mantine/charts";

import { causeWords, timeTicks, type DropRow } from "./samples";

const COLOURS = ["red.6", "orange.6", "yellow.7", "blue.6", "grape.6", "teal.6", "gray.6"];
const time = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });
// The library also formats values that are no time.
const clock = (at: unknown) => (Number.isFinite(Number(at)) ? time.format(Number(at)) : "");

/** Loaded on its own, because the library is large. */
export function DropsChart({ rows, causes }: { rows: readonly DropRow[]; causes: readonly string[] }) {
  return (
    <AreaChart
      h={220}
      data={[...rows]}
      dataKey="at"
      type="stacked"
      withLegend
      curveType="step"
      withDots={false}
      strokeWidth={1.5}
      tickLine="y"
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
      yAxisProps={{ allowDecimals: false }}
      tooltipProps={{ labelFormatter: clock }}
      series={causes.map((cause, at) => ({
        name: cause,
        label: causeWords(cause),
        color: COLOURS[at % COLOURS.length] ?? "gray.6",
      }))}
    />
  );
}
