import { Group, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";

import { Name } from "./Name";

export function PageHead({
  title,
  about,
  isWide = false,
  children,
}: {
  title: string;
  about?: ReactNode;
  /** The page has parts beside each other, and no list alone. */
  isWide?: boolean;
  children?: ReactNode;
}) {
  useDocumentTitle(`${title} · Culvert`);
  return (
    <Group justify="space-between" align="flex-start" mb="lg" gap="md" className={isWide ? "wide" : "list"}>
      <Stack gap={2} maw={720} miw={0}>
        <Title order={1} size="h2" className="name">
          <Name>{title}</Name>
        </Title>
        {about !== undefined && (
          <Text c="dimmed" size="sm" component="div" className="measure">
            {about}
          </Text>
        )}
      </Stack>
      <Group gap="sm">{children}</Group>
    </Group>
  );
}
