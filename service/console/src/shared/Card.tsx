import { Center, Group, Image, Paper, Text } from "@mantine/core";
import type { ReactNode } from "react";

/** The card itself, with the product's name and, opposite it, `beside`; `maxWidth` in pixels. */
export function Card({
  maxWidth,
  beside,
  children,
}: {
  maxWidth: number;
  beside?: ReactNode;
  children: ReactNode;
}) {
  return (
    <Center component="main" mih="100vh" p="md">
      <Paper withBorder shadow="sm" p={{ base: "lg", xs: "xl" }} w="100%" maw={maxWidth} radius="lg">
        <Group gap="xs" mb="lg">
          <Image src="/console/icon.svg" alt="" w={28} h={28} />
          <Text fw={600} size="lg" flex={1}>
            Culvert
          </Text>
          {beside}
        </Group>
        {children}
      </Paper>
    </Center>
  );
}
