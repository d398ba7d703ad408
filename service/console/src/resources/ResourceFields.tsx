import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
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
          label={t`Name that people open`}
          description={t`Fully qualified; *.dev.corp.example covers every name below`}
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
            label={t`Short name`}
            description={t`For lists and policies; it cannot be changed later`}
            placeholder="wiki"
            required
            spellCheck={false}
            autoCapitalize="none"
            miw={200}
            {...form.getInputProps("name")}
          />
        )}
      </Group>
      <Stack gap={6} role="group" aria-label={t`Permitted addresses`}>
        <Text size="sm" fw={500}>
          <Trans>Permitted addresses</Trans>
        </Text>
        <Text size="xs" c="dimmed">
          <Trans>Addresses on the gateways’ LAN. The tunnel carries only these.</Trans>
        </Text>
        <TargetRows form={form} path="targets" rows={form.values.targets} atLeast={1} />
      </Stack>
      <MultiSelect
        label={t`Gateways`}
        description={t`The first gateway that is online is used`}
        placeholder={form.values.gateways.length > 0 ? "" : t`At least one`}
        data={[...new Set([...(gateways?.keys() ?? []), ...form.values.gateways])]}
        searchable
        withAsterisk
        {...form.getInputProps("gateways")}
      />
      <MultiSelect
        label={t`People`}
        description={t`Each gets a policy; use Policies for groups and conditions`}
        placeholder={form.values.users.length > 0 ? "" : t`Nobody yet`}
        data={[...new Set([...people, ...form.values.users])]}
        searchable
        limit={50}
        nothingFoundMessage={t`No person of that name`}
        {...form.getInputProps("users")}
      />
      <TextInput
        label={t`Owner`}
        description={t`Contact for people without access`}
        placeholder="bob@corp.example"
        required
        {...form.getInputProps("owner")}
      />
      <Accordion variant="contained" chevronPosition="left">
        <Accordion.Item value="more">
          <Accordion.Control>
            <Text size="sm">
              <Trans>Encryption and idle time</Trans>
            </Text>
          </Accordion.Control>
          <Accordion.Panel>
            <Group grow align="flex-start">
              <Select
                label={t`Suite`}
                placeholder={t`Each gateway’s default`}
                clearable
                data={[...new Set([...SUITES, ...(form.values.suite === "" ? [] : [form.values.suite])])]}
                error={form.errors["suite"]}
                value={form.values.suite === "" ? null : form.values.suite}
                onChange={(suite) => form.setFieldValue("suite", suite ?? "")}
              />
              <NumberInput
                label={t`Idle time`}
                description={t`Seconds without a packet before a tunnel is closed`}
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
