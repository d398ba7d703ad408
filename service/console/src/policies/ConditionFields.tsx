import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import {
  Checkbox,
  Chip,
  Group,
  NumberInput,
  Paper,
  Select,
  Stack,
  TagsInput,
  Text,
  TextInput,
} from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";

import { say } from "../locale/language";
import { CODE_AGE_MAX } from "../api/contract";
import { FormRows } from "../shared/FormRows";
import { DAYS, WORKDAY, type PolicyForm } from "./form";
import { PostureFields } from "./PostureFields";

const ZONES = ["UTC", ...Intl.supportedValuesOf("timeZone")];

export function ConditionFields({ form }: { form: UseFormReturnType<PolicyForm> }) {
  return (
    <Paper withBorder p="md" role="group" aria-label={t`Conditions`}>
      <Stack gap="md">
        <div>
          <Text fw={600}>
            <Trans>Conditions</Trans>
          </Text>
          <Text size="xs" c="dimmed">
            <Trans>All conditions must be met. Empty fields are not checked.</Trans>
          </Text>
        </div>
        <NumberInput
          label={t`Code at most this old`}
          description={t`In minutes; with 0, any code that is still valid will do`}
          min={0}
          max={CODE_AGE_MAX / 60}
          clampBehavior="none"
          suffix=" min"
          w={260}
          {...form.getInputProps("code_minutes")}
          onChange={(minutes) => form.setFieldValue("code_minutes", Number(minutes))}
        />
        <Checkbox
          label={t`Only from a device that an administrator has approved`}
          {...form.getInputProps("device_approved", { type: "checkbox" })}
        />
        <Hours form={form} />
        <TagsInput
          label={t`Only from these addresses`}
          description={t`Prefixes of the device's public address, such as 203.0.113.0/24; Enter adds each`}
          placeholder={form.values.sources.length > 0 ? "" : t`Anywhere`}
          splitChars={[",", " "]}
          {...form.getInputProps("sources")}
        />
        <PostureFields form={form} />
      </Stack>
    </Paper>
  );
}

function Hours({ form }: { form: UseFormReturnType<PolicyForm> }) {
  const { windows, zone } = form.values;
  return (
    <Stack gap={6} role="group" aria-label={t`Hours`}>
      <Text size="sm" fw={600}>
        <Trans>Only at these hours</Trans>
      </Text>
      <FormRows
        form={form}
        path="windows"
        rows={windows}
        one={t`hours`}
        align="center"
        blank={WORKDAY}
        add={windows.length === 0 ? t`Set hours` : t`Other hours too`}
        beside={
          windows.length > 0 && (
            <Select
              aria-label={t`Time zone`}
              searchable
              limit={50}
              allowDeselect={false}
              data={[...new Set([zone, ...ZONES])]}
              w={240}
              {...form.getInputProps("zone")}
            />
          )
        }
      >
        {(window, at) => (
          <>
            <Chip.Group
              multiple
              value={window.days}
              onChange={(days) => form.setFieldValue(`windows.${at}.days`, days)}
            >
              <Group gap={4} role="group" aria-label={t`Days ${at + 1}`}>
                {DAYS.map(({ value, label }) => (
                  <Chip key={value} value={value} size="xs">
                    {say(label)}
                  </Chip>
                ))}
              </Group>
            </Chip.Group>
            <Group gap="xs" wrap="nowrap">
              <TextInput
                type="time"
                required
                aria-label={t`From ${at + 1}`}
                w={128}
                {...form.getInputProps(`windows.${at}.opens`)}
              />
              <Text size="sm">
                <Trans>to</Trans>
              </Text>
              <TextInput
                type="time"
                required
                aria-label={t`To ${at + 1}`}
                w={128}
                {...form.getInputProps(`windows.${at}.closes`)}
              />
            </Group>
          </>
        )}
      </FormRows>
    </Stack>
  );
}
