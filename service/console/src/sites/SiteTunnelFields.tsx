import { Accordion, Paper, Select, SimpleGrid, Stack, Text, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";

import { SUITES } from "../api/contract";
import { useGateways } from "../live/live";
import { TargetRows } from "../resources/TargetRows";
import { NamesField } from "../shared/NamesField";
import type { SiteTunnelForm } from "./form";

export function SiteTunnelFields({
  form,
  isNew = false,
  suite,
}: {
  form: UseFormReturnType<SiteTunnelForm>;
  isNew?: boolean;
  /** The suite without a choice. */
  suite?: string;
}) {
  return (
    <Stack gap="lg">
      {isNew && (
        <TextInput
          label="Name"
          description="Lower-case letters, digits and hyphens; it cannot be changed later"
          placeholder="berlin-paris"
          required
          spellCheck={false}
          autoCapitalize="none"
          {...form.getInputProps("name")}
        />
      )}
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        {form.values.ends.map((_, at) => (
          <EndFields key={at} form={form} at={at} isNew={isNew} />
        ))}
      </SimpleGrid>
      <TextInput
        label="Owner"
        description="Contact for questions"
        placeholder="bob@corp.example"
        required
        {...form.getInputProps("owner")}
      />
      <Accordion variant="contained" chevronPosition="left">
        <Accordion.Item value="more">
          <Accordion.Control>
            <Text size="sm">Encryption</Text>
          </Accordion.Control>
          <Accordion.Panel>
            <Select
              label="Suite"
              description="A new suite takes effect at once with new keys, without a gap"
              placeholder={suite ? `The resources’: ${suite}` : "The resources’, or aes-gcm-256"}
              clearable
              maw={360}
              data={[...new Set([...SUITES, ...(form.values.suite === "" ? [] : [form.values.suite])])]}
              error={form.errors["suite"]}
              value={form.values.suite === "" ? null : form.values.suite}
              onChange={(chosen) => form.setFieldValue("suite", chosen ?? "")}
            />
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
    </Stack>
  );
}

function EndFields({
  form,
  at,
  isNew,
}: {
  form: UseFormReturnType<SiteTunnelForm>;
  at: number;
  isNew: boolean;
}) {
  const gateways = useGateways().rows;
  const end = form.values.ends[at];
  if (end === undefined) return null;
  const which = at === 0 ? "one end" : "the other end";
  const of = ` at ${which}`;
  return (
    <Paper withBorder p="md" role="group" aria-label={at === 0 ? "One end" : "The other end"}>
      <Stack gap="md">
        {isNew ? (
          <Select
            label="Gateway"
            placeholder="Choose one"
            data={[...(gateways?.keys() ?? [])].sort()}
            searchable
            withAsterisk
            {...form.getInputProps(`ends.${at}.gateway`)}
          />
        ) : (
          <Text fw={600} className="name">
            {end.gateway}
          </Text>
        )}
        <NamesField
          area="resources"
          {...(end.gateway !== "" && { gateway: end.gateway })}
          label="Resources"
          description="Reachable from the other end, with their addresses and ports"
          placeholder={end.resources.length > 0 ? "" : "None"}
          disabled={end.gateway === ""}
          {...form.getInputProps(`ends.${at}.resources`)}
        />
        <Stack gap={6} role="group" aria-label={`Addresses${of}`}>
          <Text size="sm" fw={500}>
            Addresses
          </Text>
          <Text size="xs" c="dimmed">
            More addresses behind this gateway that may reach the other end, or be reached from there.
          </Text>
          <TargetRows form={form} path={`ends.${at}.targets`} rows={end.targets} of={of} />
        </Stack>
      </Stack>
    </Paper>
  );
}
