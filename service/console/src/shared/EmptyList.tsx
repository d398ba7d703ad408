import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Paper, Stack, Text, ThemeIcon, Title } from "@mantine/core";
import { IconSearchOff } from "@tabler/icons-react";
import type { ReactNode } from "react";

/** An empty list: it names the missing rows and the next step. */
export function EmptyList({
  icon,
  title,
  children,
  action,
}: {
  icon: ReactNode;
  title: string;
  children: ReactNode;
  action?: ReactNode;
}) {
  return (
    <Paper withBorder py={64} px="md" className="list">
      <Stack align="center" gap="sm" maw={440} mx="auto" ta="center">
        <ThemeIcon size={56} radius="xl" variant="light">
          {icon}
        </ThemeIcon>
        <Title order={2} size="h4">
          {title}
        </Title>
        <Text c="dimmed" size="sm">
          {children}
        </Text>
        {action}
      </Stack>
    </Paper>
  );
}

/** A list without a row that matches the search or the filters. */
export function NoMatch({
  kind,
  places,
  onShowAll,
}: {
  /** The kind of rows, as inside a sentence. */
  kind: string;
  /** The texts of a row that are searched: "in its name or members"; null without a text. */
  places: string | null;
  onShowAll: () => void;
}) {
  return (
    <EmptyList
      icon={<IconSearchOff />}
      title={t`No matching ${kind}`}
      action={
        <Button variant="default" onClick={onShowAll}>
          <Trans>Show all</Trans>
        </Button>
      }
    >
      {places === null ? t`The chosen filters leave none.` : t`Nothing has this text ${places}.`}
    </EmptyList>
  );
}
