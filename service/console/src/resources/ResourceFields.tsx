import { Accordion, Group, MultiSelect, NumberInput, Select, Stack, Text, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import type { ChangeEventHandler } from "react";

import { IDLE_MAX, SUITES } from "../api/contract";
import { useGateways } from "../live/live";
import type { ResourceForm } from "./form";
import { peopleNamesQuery } from "./queries";
import { TargetRows } from "./TargetRows";

export function ResourceFields({
  form,
  onFqdn,
  isNew,
}: {
  form: UseFormReturnType<ResourceForm>;
  onFqdn?: (fqdn: string) => void;
  isNew?: boolean;
}) {
  const gateways = useGateways().rows;
  const people = useQuery(peopleNamesQuery).data ?? [];
  const fqdn = form.getInputProps("fqdn") as { onChange: ChangeEventHandler<HTMLInputElement> };
  return (
    <Stack gap="lg">
      <Group grow align="flex-start" preventGrowOverflow={false} wrap="wrap">
        <TextInput
          label="Name that people open"
          description="Fully qualified; *.dev.corp.example covers every name below"
          placeholder="wiki.corp.example"
          required
          spellCheck={false}
          autoCapitalize="none"
          miw={240}
          {...fqdn}
          onChange={(event) => {
            fqdn.onChange(event);
            onFqdn?.(event.currentTarget.value);
          }}
        />
        {isNew && (
          <TextInput
            label="Short name"
            description="For lists and policies; it cannot be changed later"
            placeholder="wiki"
            required
            spellCheck={false}
            autoCapitalize="none"
            miw={200}
            {...form.getInputProps("name")}
          />
        )}
      </Group>
      <Stack gap={6} role="group" aria-label="Permitted addresses">
        <Text size="sm" fw={500}>
          Permitted addresses
        </Text>
        <Text size="xs" c="dimmed">
          Addresses on the gateways’ LAN. The tunnel carries only these.
        </Text>
        <TargetRows form={form} path="targets" rows={form.values.targets} atLeast={1} />
      </Stack>
      <MultiSelect
        label="Gateways"
        description="The first gateway that is online is used"
        placeholder={form.values.gateways.length > 0 ? "" : "At least one"}
        data={[...new Set([...(gateways?.keys() ?? []), ...form.values.gateways])]}
        searchable
        withAsterisk
        {...form.getInputProps("gateways")}
      />
      <MultiSelect
        label="People"
        description="Each gets a policy; use Policies for groups and conditions"
        placeholder={form.values.users.length > 0 ? "" : "Nobody yet"}
        data={[...new Set([...people, ...form.values.users])]}
        searchable
        limit={50}
        nothingFoundMessage="No person of that name"
        {...form.getInputProps("users")}
      />
      <TextInput
        label="Owner"
        description="Contact for people without access"
        placeholder="bob@corp.example"
        required
        {...form.getInputProps("owner")}
      />
      <Accordion variant="contained" chevronPosition="left">
        <Accordion.Item value="more">
          <Accordion.Control>
            <Text size="sm">Encryption and idle time</Text>
          </Accordion.Control>
          <Accordion.Panel>
            <Group grow align="flex-start">
              <Select
                label="Suite"
                placeholder="Each gateway’s default"
                clearable
                data={[...new Set([...SUITES, ...(form.values.suite === "" ? [] : [form.values.suite])])]}
                error={form.errors["suite"]}
                value={form.values.suite === "" ? null : form.values.suite}
                onChange={(suite) => form.setFieldValue("suite", suite ?? "")}
              />
              <NumberInput
                label="Idle time"
                description="Seconds without a packet before a tunnel is closed"
                min={1}
                max={IDLE_MAX}
                {...form.getInputProps("idle_seconds")}
              />
            </Group>
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
    </Stack>
  );
}
