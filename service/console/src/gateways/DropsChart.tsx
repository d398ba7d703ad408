import { TimeChart } from "./TimeChart";
import { causeWords, type DropRow } from "./samples";

const COLOURS = ["red.6", "orange.6", "yellow.7", "blue.6", "grape.6", "teal.6", "gray.6"];

export function DropsChart({ rows, causes }: { rows: readonly DropRow[]; causes: readonly string[] }) {
  return (
    <TimeChart
      h={220}
      rows={rows}
      isStacked
      withLegend
      yAxisProps={{ allowDecimals: false }}
      series={causes.map((cause, at) => ({
        name: cause,
        label: causeWords(cause),
        color: COLOURS[at % COLOURS.length] ?? "gray.6",
      }))}
    />
  );
}
