import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Autocomplete, Select, Stack, TagsInput, Text, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";

import { sayOptions } from "../locale/language";
import { FormRows } from "../shared/FormRows";
import { NO_REQUIREMENT, type PolicyForm } from "./form";

// The facts that Culvert's own client reports; another client may report more.
const FACTS = ["architecture", "client_version", "disk_encryption", "kernel", "os", "os_id", "os_version"];
const HOWS = [
  { value: "one_of", label: msg`is one of` },
  { value: "at_least", label: msg`is at least version` },
];

/** Conditions on the facts that a computer reports. */
export function PostureFields({ form }: { form: UseFormReturnType<PolicyForm> }) {
  const { posture } = form.values;
  return (
    <Stack gap={6} role="group" aria-label={t`Facts about the computer`}>
      <div>
        <Text size="sm" fw={500}>
          <Trans>Only from a computer that reports</Trans>
        </Text>
        <Text size="xs" c="dimmed">
          <Trans>A fact that a device does not report counts as not met.</Trans>
        </Text>
      </div>
      <FormRows
        form={form}
        path="posture"
        rows={posture}
        one={t`fact`}
        blank={NO_REQUIREMENT}
        add={posture.length === 0 ? t`Ask for a fact` : t`Another fact`}
      >
        {(requirement, at) => (
          <>
            <Autocomplete
              aria-label={t`Fact ${at + 1}`}
              placeholder="disk_encryption"
              data={FACTS}
              required
              spellCheck={false}
              autoCapitalize="none"
              w={190}
              {...form.getInputProps(`posture.${at}.fact`)}
            />
            <Select
              aria-label={t`How ${at + 1}`}
              data={sayOptions(HOWS)}
              allowDeselect={false}
              w={190}
              {...form.getInputProps(`posture.${at}.how`)}
            />
            {requirement.how === "one_of" ? (
              <TagsInput
                aria-label={t`Values ${at + 1}`}
                placeholder={requirement.values.length > 0 ? "" : "on"}
                flex={1}
                miw={160}
                {...form.getInputProps(`posture.${at}.values`)}
              />
            ) : (
              <TextInput
                aria-label={t`Version ${at + 1}`}
                placeholder="12.4"
                required
                flex={1}
                miw={160}
                {...form.getInputProps(`posture.${at}.version`)}
              />
            )}
          </>
        )}
      </FormRows>
    </Stack>
  );
}
