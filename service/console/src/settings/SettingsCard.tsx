import { Group, Paper, Stack, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

/** A titled card of the settings page. */
export function SettingsCard({
  title,
  about,
  action,
  isList = false,
  children,
}: {
  title: string;
  about?: ReactNode;
  action?: ReactNode;
  /** The card holds a list, as wide as one. */
  isList?: boolean;
  children?: ReactNode;
}) {
  return (
    <Paper withBorder p="lg" component="section" aria-label={title} maw={isList ? 1600 : 820}>
      <Group justify="space-between" align="flex-start" mb={children ? "md" : 0}>
        <Stack gap={2} flex={1} miw={220}>
          <Title order={2} size="h4">
            {title}
          </Title>
          {about !== undefined && (
            <Text size="sm" c="dimmed" component="div" className="measure">
              {about}
            </Text>
          )}
        </Stack>
        {action}
      </Group>
      {children}
    </Paper>
  );
}
