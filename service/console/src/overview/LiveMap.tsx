import "@xyflow/react/dist/base.css";

import { plural } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Box, Group, Paper, Text, Tooltip } from "@mantine/core";
import { IconDeviceLaptop, IconServer2, IconWorld } from "@tabler/icons-react";
import { Handle, Position, ReactFlow, type Edge, type Node, type NodeProps } from "@xyflow/react";
import { useLayoutEffect, useMemo, useRef, useState, type RefObject } from "react";

import type { Gateway, Rate, Tunnel } from "../live/live";
import type { Rows } from "../live/rows";
import { AnchorLink } from "../shared/links";
import { useNow } from "../shared/useNow";
import { age, partsOf, rate } from "../shared/words";
import { layout, type Column, type Named, type Spot } from "./layout";

const ICONS = { device: IconDeviceLaptop, gateway: IconServer2, resource: IconWorld };
const PLACE: Record<Column, number> = { device: 0, gateway: 0.5, resource: 1 };
const COLOURS = { online: "culvert", offline: "red", draining: "yellow", idle: "gray" };
const WIDEST_PX = 230;
const LABELLED_PX = 700;
// On a narrower map a card has two lines for a name, and two for what is said of it.
const NARROW_PX = 480;
const WIDTH = (whole: number) => Math.min(WIDEST_PX, whole * (whole < NARROW_PX ? 0.31 : 0.28));
const HEIGHTS_PX = { wide: { card: 52, row: 68 }, narrow: { card: 80, row: 92 } };

type SpotNode = Node<Spot & { isNarrow: boolean } & Record<string, unknown>, "spot">;

export function LiveMap({
  tunnels,
  gateways,
  rates,
  resources,
}: {
  tunnels: readonly Tunnel[];
  gateways: readonly Gateway[];
  rates: Rows<Rate>;
  /** Shown greyed while no tunnel leads to them. */
  resources: readonly Named[];
}) {
  const ref = useRef<HTMLDivElement>(null);
  const width = useWidth(ref);
  const now = useNow();
  const isNarrow = width < NARROW_PX;
  const heights = isNarrow ? HEIGHTS_PX.narrow : HEIGHTS_PX.wide;
  const { spots, spans, height, left } = useMemo(
    () => layout(tunnels, gateways, rates, resources, heights.row),
    [tunnels, gateways, rates, resources, heights],
  );
  const nodes = spots.map((spot): SpotNode => {
    const wide = WIDTH(width);
    return {
      id: spot.id,
      type: "spot",
      data: { ...spot, isNarrow },
      position: { x: PLACE[spot.column] * (width - wide), y: spot.y },
      width: wide,
      height: heights.card,
      ariaLabel: `${spot.column} ${spot.title} ${spot.about}`,
    };
  });
  const offline = new Set(spots.filter(({ state }) => state === "offline").map(({ id }) => id));
  const edges = spans.map(({ id, from, to, tunnels: count, rate: bytes, since }): Edge => ({
    id,
    source: from,
    target: to,
    animated: bytes > 0,
    ...(width >= LABELLED_PX && {
      label: [
        count > 1 && plural(count, { one: "# tunnel", other: "# tunnels" }),
        bytes > 0 && rate(bytes),
        from.startsWith("device/") && age(Date.parse(since), now),
      ]
        .filter(Boolean)
        .join(" · "),
      labelShowBg: true,
      labelBgStyle: { fill: "var(--mantine-color-body)" },
      labelStyle: { fill: "var(--mantine-color-text)", fontSize: 11 },
    }),
    style: {
      strokeWidth: 1.5 + Math.min(3, Math.log2(count)),
      stroke: `var(--mantine-color-${offline.has(from) || offline.has(to) ? "red" : "culvert"}-filled)`,
    },
  }));
  return (
    <Box
      ref={ref}
      role="group"
      aria-label={plural(tunnels.length, {
        one: "# tunnel between devices, gateways and resources",
        other: "# tunnels between devices, gateways and resources",
      })}
    >
      <Box h={height}>
        {width > 0 && (
          <ReactFlow
            nodes={nodes}
            edges={edges}
            nodeTypes={NODE_TYPES}
            nodesDraggable={false}
            nodesConnectable={false}
            nodesFocusable={false}
            edgesFocusable={false}
            elementsSelectable={false}
            panOnDrag={false}
            zoomOnScroll={false}
            zoomOnPinch={false}
            zoomOnDoubleClick={false}
            preventScrolling={false}
            proOptions={{ hideAttribution: true }}
          />
        )}
      </Box>
      {left > 0 && (
        <Text size="sm" c="dimmed" ta="center" mt="sm">
          <Trans>and {left} more</Trans>
        </Text>
      )}
    </Box>
  );
}

/** The element's width, measured before the first paint. */
function useWidth(ref: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const box = ref.current;
    if (box === null) return undefined;
    const measure = () => setWidth(box.clientWidth);
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(box);
    return () => watch.disconnect();
  }, [ref]);
  return width;
}

function SpotCard({ data }: NodeProps<SpotNode>) {
  const Icon = ICONS[data.column];
  const Words = data.isNarrow ? NameInParts : NameInLine;
  return (
    <Tooltip
      label={[data.title, data.about].filter(Boolean).join(", ")}
      // A mouse shows the titles of the texts.
      events={{ hover: false, focus: false, touch: true }}
      multiline
      maw={300}
    >
      <Paper
        withBorder
        h="100%"
        px={data.isNarrow ? 6 : "sm"}
        shadow="xs"
        // The map leaves its nodes no pointer.
        style={{ pointerEvents: "all" }}
        {...(data.state === "idle" && { bg: "transparent" })}
        bd={
          data.state === "online" || data.state === "idle"
            ? undefined
            : `1px solid var(--mantine-color-${COLOURS[data.state]}-filled)`
        }
      >
        {data.column !== "device" && <Hook type="target" at={Position.Left} />}
        <Group gap="xs" wrap="nowrap" h="100%">
          {!data.isNarrow && (
            <Text c={COLOURS[data.state]} lh={0}>
              <Icon size={20} stroke={1.6} />
            </Text>
          )}
          <Box miw={0}>
            <AnchorLink
              to={data.href}
              display="block"
              size={data.isNarrow ? "xs" : "sm"}
              fw={data.state === "idle" ? 400 : 600}
              c={data.state === "idle" ? "dimmed" : "var(--mantine-color-text)"}
            >
              <Words text={data.title} />
            </AnchorLink>
            {data.about !== "" && (
              <Text component="div" size="xs" c={data.state === "offline" ? "red" : "dimmed"}>
                <Words text={data.about} />
              </Text>
            )}
          </Box>
        </Group>
        {data.column !== "resource" && <Hook type="source" at={Position.Right} />}
      </Paper>
    </Tooltip>
  );
}

function NameInLine({ text }: { text: string }) {
  return (
    <div className="ellipsis" title={text}>
      {text}
    </div>
  );
}

/** Two lines at most. They break after a dot, a hyphen or a space; a longer part is elided. */
function NameInParts({ text }: { text: string }) {
  return (
    <Text component="div" inherit lineClamp={2}>
      {partsOf(text).map((part, at) => (
        <span key={at} className="ellipsis part" title={text}>
          {part}
        </span>
      ))}
    </Text>
  );
}

function Hook({ type, at }: { type: "source" | "target"; at: Position }) {
  return <Handle type={type} position={at} isConnectable={false} style={{ opacity: 0 }} />;
}

const NODE_TYPES = { spot: SpotCard };
