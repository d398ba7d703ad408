import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Group, Paper, Stack, Text, ThemeIcon, Title } from "@mantine/core";
import { IconAlertTriangle, IconBell, IconChevronRight, IconCircleCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { isZone } from "../dns/records";
import { useDns, useGateways } from "../live/live";
import { controllerQuery } from "../settings/queries";
import { Name } from "../shared/Name";
import { AnchorLink } from "../shared/links";
import { useNow } from "../shared/useNow";
import { deniedSince, needsOf, type Need } from "./needs";
import { brokenQuery, hoursQuery, pendingQuery, unusedQuery } from "./queries";

export function NeedsYou() {
  const now = useNow();
  const gateways = useGateways().rows;
  const dns = useDns().rows;
  const hours = useQuery(hoursQuery).data;
  const pending = useQuery(pendingQuery).data;
  const controller = useQuery(controllerQuery).data;
  const broken = useQuery(brokenQuery).data;
  const unused = useQuery(unusedQuery).data;
  if (!gateways || !dns || !hours || !pending || !controller || broken === undefined || !unused) return null;
  const zones = [...dns.values()].filter(isZone);
  const needs = needsOf(
    {
      pending,
      deniedToday: deniedSince(hours, now),
      gateways: [...gateways.values()],
      zones,
      certificates: controller.certificates,
      broken,
      unused,
    },
    now,
  );
  return (
    <Paper withBorder p="md" component="section" aria-label={t`Needs you`}>
      <Title order={2} size="h5" mb="sm">
        <Trans>Needs you</Trans>
      </Title>
      {needs.length === 0 ? (
        <Group gap="xs" wrap="nowrap">
          <ThemeIcon variant="light" radius="xl">
            <IconCircleCheck size={18} />
          </ThemeIcon>
          <Text size="sm">
            {zones.length > 0
              ? t`Nothing: no device waits, no certificate ends soon, and every zone is live.`
              : t`Nothing: no device waits, and no certificate ends soon.`}
          </Text>
        </Group>
      ) : (
        <Stack component="ul" gap="xs" m={0} p={0} style={{ listStyle: "none" }}>
          {needs.map((need) => (
            <li key={need.key}>
              <Line need={need} />
            </li>
          ))}
        </Stack>
      )}
    </Paper>
  );
}

function Line({ need: { words, isUrgent, to } }: { need: Need }) {
  const Icon = isUrgent ? IconAlertTriangle : IconBell;
  return (
    <AnchorLink {...to} underline="never" c="var(--mantine-color-text)" display="block">
      <Group gap="xs" wrap="nowrap">
        <ThemeIcon variant="light" radius="xl" color={isUrgent ? "yellow" : "gray"} aria-hidden>
          <Icon size={16} />
        </ThemeIcon>
        <Text size="sm" flex={1} className="name">
          <Name>{words}</Name>
        </Text>
        <IconChevronRight size={16} aria-hidden />
      </Group>
    </AnchorLink>
  );
}
