import { Accordion, Text } from "@mantine/core";
import { useState, type ReactNode } from "react";

const PART = "fields";

/** Fields of a form that are seldom changed: folded, unless one of them has a fault. */
export function Fold({
  title,
  fields,
  errors,
  children,
}: {
  title: string;
  fields: readonly string[];
  errors: Readonly<Record<string, ReactNode>>;
  children: ReactNode;
}) {
  const [open, setOpen] = useState<string | null>(null);
  const isFaulty = fields.some((field) => Boolean(errors[field]));
  return (
    <Accordion variant="contained" chevronPosition="left" value={isFaulty ? PART : open} onChange={setOpen}>
      <Accordion.Item value={PART}>
        <Accordion.Control>
          <Text size="sm">{title}</Text>
        </Accordion.Control>
        <Accordion.Panel>{children}</Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  );
}
