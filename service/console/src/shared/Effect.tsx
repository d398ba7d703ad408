/** The effect of a change of access, shown before the change. */
import { Group, List, Paper, Text } from "@mantine/core";
import { IconEye } from "@tabler/icons-react";
import type { ReactNode } from "react";

import type { Schemas } from "../api/client";
import { closes, counted } from "./words";

export type Effect = Schemas["EffectOut"];

export function EffectBox({ children }: { children: ReactNode }) {
  return (
    <Paper withBorder p="md" role="region" aria-label="Effect of this change" aria-live="polite">
      <Group gap="xs" mb="xs">
        <IconEye size={18} />
        <Text fw={600}>Effect of this change</Text>
      </Group>
      {children}
    </Paper>
  );
}

export function EffectList({ effect, children }: { effect: Effect; children?: ReactNode }) {
  const { gain, lose, tunnels_closed } = effect;
  return (
    <List size="sm" spacing={4}>
      {gain.count > 0 && (
        <List.Item>
          <People {...gain} /> {gain.count === 1 ? "gets" : "get"} access
          <Names {...gain} />
        </List.Item>
      )}
      {lose.count > 0 && (
        <List.Item>
          <People {...lose} /> {lose.count === 1 ? "loses" : "lose"} access
          <Names {...lose} />
        </List.Item>
      )}
      {gain.count === 0 && lose.count === 0 && <List.Item>No person gains or loses access</List.Item>}
      <List.Item>{closes(tunnels_closed)}</List.Item>
      {children}
    </List>
  );
}

function People({ count }: { count: number }) {
  return (
    <Text span inherit fw={600}>
      {counted(count, "person", "people")}
    </Text>
  );
}

function Names({ count, first }: Effect["gain"]) {
  return (
    <Text span inherit c="dimmed" className="name">
      : {first.join(", ")}
      {count > first.length && ", …"}
    </Text>
  );
}
