/** The effect of a change of access, shown before the change. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Group, List, Paper, Text } from "@mantine/core";
import { IconEye } from "@tabler/icons-react";
import type { ReactNode } from "react";

import type { Schemas } from "../api/client";
import { closes } from "./words";

export type Effect = Schemas["EffectOut"];

export function EffectBox({ children }: { children: ReactNode }) {
  return (
    <Paper withBorder p="md" role="region" aria-label={t`Effect of this change`} aria-live="polite">
      <Group gap="xs" mb="xs">
        <IconEye size={18} />
        <Text fw={600}>
          <Trans>Effect of this change</Trans>
        </Text>
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
          {plural(gain.count, { one: "# person gets access", other: "# people get access" })}
          <Names {...gain} />
        </List.Item>
      )}
      {lose.count > 0 && (
        <List.Item>
          {plural(lose.count, { one: "# person loses access", other: "# people lose access" })}
          <Names {...lose} />
        </List.Item>
      )}
      {gain.count === 0 && lose.count === 0 && (
        <List.Item>
          <Trans>No person gains or loses access</Trans>
        </List.Item>
      )}
      <List.Item>{closes(tunnels_closed)}</List.Item>
      {children}
    </List>
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
