import { Center, Group, Image, Paper, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";

/** A card in the middle of the page, before sign-in. */
export function CardPage({ title, about, children }: { title: string; about?: string; children: ReactNode }) {
  useDocumentTitle(`${title} · Culvert`);
  return (
    <Card maxWidth={420}>
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

/** The card itself, with the product's name; `maxWidth` in pixels. */
export function Card({ maxWidth, children }: { maxWidth: number; children: ReactNode }) {
  return (
    <Center
      component="main"
      mih="100vh"
      p="md"
      bg="light-dark(var(--mantine-color-gray-0), var(--mantine-color-dark-8))"
    >
      <Paper withBorder shadow="sm" p={{ base: "lg", xs: "xl" }} w="100%" maw={maxWidth} radius="lg">
        <Group gap="xs" mb="lg">
          <Image src="/console/icon.svg" alt="" w={28} h={28} />
          <Text fw={650} size="lg">
            Culvert
          </Text>
        </Group>
        {children}
      </Paper>
    </Center>
  );
}
