/** The effect of a change of access, shown before the change. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Alert, Group, List, Paper, Text } from "@mantine/core";
import { IconEye } from "@tabler/icons-react";
import { useEffect, type ReactNode } from "react";

import type { Schemas } from "../api/client";
import { AnchorLink } from "./links";
import { inFull } from "./PersonName";
import { closes, saidOf } from "./words";

export type Effect = Schemas["EffectOut"];
export type OnBreaks = (isBroken: boolean) => void;
export type Assertion = Schemas["AssertionOut"];

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

export function EffectList({
  effect,
  first,
  nobody,
  children,
}: {
  effect: Pick<Effect, "gain" | "lose" | "tunnels_closed"> & Partial<Pick<Effect, "waiting">>;
  /** List items before those about people and tunnels. */
  first?: ReactNode;
  /** The item if no person gains or loses access. */
  nobody?: string;
  children?: ReactNode;
}) {
  const { gain, waiting, lose, tunnels_closed } = effect;
  const waits = waiting !== undefined && waiting.count > 0;
  return (
    <List size="sm" spacing={4}>
      {first}
      {gain.count > 0 && (
        <List.Item>
          {plural(gain.count, { one: "# person gets access", other: "# people get access" })}
          <Names {...gain} />
        </List.Item>
      )}
      {waits && <Waiting {...waiting} />}
      {lose.count > 0 && (
        <List.Item>
          {plural(lose.count, { one: "# person loses access", other: "# people lose access" })}
          <Names {...lose} />
        </List.Item>
      )}
      {gain.count === 0 && lose.count === 0 && !waits && (
        <List.Item>{nobody ?? t`No person gains or loses access`}</List.Item>
      )}
      <List.Item>{closes(tunnels_closed)}</List.Item>
      {children}
    </List>
  );
}

/**
 * The assertions for which the controller refuses the change, in red above the form's or dialog's buttons. `onBreaks` is
 * called with whether there are any; with false, once the effect is no longer shown.
 */
export function Breaks({ of, onBreaks }: { of: readonly Assertion[]; onBreaks?: OnBreaks }) {
  const isBroken = of.length > 0;
  useEffect(() => {
    onBreaks?.(isBroken);
    return () => onBreaks?.(false);
  }, [isBroken, onBreaks]);
  if (!isBroken) return null;
  return (
    <Alert color="red" variant="light" mt="sm" title={t`The change would break an assertion and is refused`}>
      <List size="sm" spacing={4}>
        {of.map((assertion) => (
          <List.Item key={assertion.id} className="name">
            {saidOf(assertion)}
          </List.Item>
        ))}
      </List>
      <AnchorLink to="/assertions" size="sm" c="inherit" underline="always" mt={6} display="inline-block">
        <Trans>Show the assertions</Trans>
      </AnchorLink>
    </Alert>
  );
}

/** The people without a device that meets the conditions on devices, such as an approval. */
function Waiting(people: Effect["waiting"]) {
  const [user] = people.count === 1 ? people.first : [];
  return (
    <List.Item>
      {plural(people.count, {
        one: "# person gets access once a device of theirs meets the conditions",
        other: "# people get access once a device of theirs meets the conditions",
      })}
      <Names {...people} /> {/* In a new tab: the form with this effect is not saved yet. */}
      <AnchorLink
        to="/devices"
        search={user === undefined ? {} : { user }}
        target="_blank"
        inherit
        underline="always"
      >
        <Trans>Show the devices</Trans>
      </AnchorLink>
    </List.Item>
  );
}

function Names({ count, first, display_names }: Effect["gain"]) {
  return (
    <Text span inherit c="dimmed" className="name">
      : {first.map((name) => inFull(name, display_names[name])).join(", ")}
      {count > first.length && ", …"}
    </Text>
  );
}
