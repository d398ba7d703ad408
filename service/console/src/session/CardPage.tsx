import { Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";

import { Card } from "../shared/Card";
import { LanguageSwitch } from "../locale/LanguageSwitch";

/** A card in the middle of the page, before sign-in. */
export function CardPage({ title, about, children }: { title: string; about?: string; children: ReactNode }) {
  useDocumentTitle(`${title} · Culvert`);
  return (
    <Card maxWidth={420} beside={<LanguageSwitch />}>
      <Stack gap={4} mb="lg">
        <Title order={1} size="h3">
          {title}
        </Title>
        {about !== undefined && (
          <Text c="dimmed" size="sm">
            {about}
          </Text>
        )}
      </Stack>
      {children}
    </Card>
  );
}
