import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Group, Paper, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import type { Schemas } from "../api/client";
import { timeOfDay } from "../shared/words";
import { hoursQuery } from "./queries";

type Hour = Schemas["HourOut"];

const HEIGHT = 72;
const LABELLED_EACH = 6;

/**
 * Openings and denials by hour. Bars of plain elements: the library of the gateway's chart would be a third of the first
 * view.
 */
export function LastDay() {
  const hours = useQuery(hoursQuery).data;
  if (!hours) return null;
  const opened = hours.reduce((sum, one) => sum + one.opened, 0);
  const denied = hours.reduce((sum, one) => sum + one.denied, 0);
  const most = Math.max(1, ...hours.map((hour) => hour.opened + hour.denied));
  return (
    <Paper withBorder p="md" component="section" aria-label={t`Last 24 hours`}>
      <Title order={2} size="h5">
        <Trans>Last 24 hours</Trans>
      </Title>
      <Group gap="md" mb="sm">
        <Mark colour="var(--mantine-color-culvert-filled)">
          {plural(opened, { one: "# tunnel opened", other: "# tunnels opened" })}
        </Mark>
        <Mark colour="var(--mantine-color-red-filled)">{plural(denied, { other: "# denied" })}</Mark>
      </Group>
      <Group gap={2} wrap="nowrap" align="flex-end" h={HEIGHT} role="img" aria-label={t`Last 24 hours`}>
        {hours.map((hour) => (
          <Bar key={hour.at} hour={hour} most={most} />
        ))}
      </Group>
      <Group gap={2} wrap="nowrap" mt={4} aria-hidden>
        {hours.map(({ at }, number) => (
          <Text key={at} size="xs" c="dimmed" flex={1} miw={0} style={{ whiteSpace: "nowrap" }}>
            {number % LABELLED_EACH === 0 && timeOfDay(at)}
          </Text>
        ))}
      </Group>
    </Paper>
  );
}

function Bar({ hour: { at, opened, denied }, most }: { hour: Hour; most: number }) {
  const time = timeOfDay(at);
  const height = (count: number) => (count === 0 ? 0 : Math.max(2, Math.round((count / most) * HEIGHT)));
  return (
    <div
      title={t`${time}: ${opened} opened, ${denied} denied`}
      style={{ flex: 1, borderBottom: "1px solid var(--mantine-color-default-border)" }}
    >
      <div style={{ height: height(denied), background: "var(--mantine-color-red-filled)" }} />
      <div style={{ height: height(opened), background: "var(--mantine-color-culvert-filled)" }} />
    </div>
  );
}

function Mark({ colour, children }: { colour: string; children: string }) {
  return (
    <Group gap={6} wrap="nowrap">
      <span aria-hidden style={{ width: 10, height: 10, borderRadius: 3, background: colour }} />
      <Text size="sm">{children}</Text>
    </Group>
  );
}
