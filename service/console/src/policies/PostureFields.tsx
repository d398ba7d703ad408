import { Autocomplete, Select, Stack, TagsInput, Text, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";

import { FormRows } from "../shared/FormRows";
import { NO_REQUIREMENT, type PolicyForm } from "./form";

// The facts that Culvert's own client reports; another client may report more.
const FACTS = ["architecture", "client_version", "disk_encryption", "kernel", "os", "os_id", "os_version"];
const HOWS = [
  { value: "one_of", label: "is one of" },
  { value: "at_least", label: "is at least version" },
];

/** Conditions on the facts that a computer reports. */
export function PostureFields({ form }: { form: UseFormReturnType<PolicyForm> }) {
  const { posture } = form.values;
  return (
    <Stack gap={6} role="group" aria-label="Facts about the computer">
      <div>
        <Text size="sm" fw={500}>
          Only from a computer that reports
        </Text>
        <Text size="xs" c="dimmed">
          A fact that a device does not report counts as not met.
        </Text>
      </div>
      <FormRows
        form={form}
        path="posture"
        rows={posture}
        one="fact"
        blank={NO_REQUIREMENT}
        add={posture.length === 0 ? "Ask for a fact" : "Another fact"}
      >
        {(requirement, at) => (
          <>
            <Autocomplete
              aria-label={`Fact ${at + 1}`}
              placeholder="disk_encryption"
              data={FACTS}
              required
              spellCheck={false}
              autoCapitalize="none"
              w={190}
              {...form.getInputProps(`posture.${at}.fact`)}
            />
            <Select
              aria-label={`How ${at + 1}`}
              data={HOWS}
              allowDeselect={false}
              w={190}
              {...form.getInputProps(`posture.${at}.how`)}
            />
            {requirement.how === "one_of" ? (
              <TagsInput
                aria-label={`Values ${at + 1}`}
                placeholder={requirement.values.length > 0 ? "" : "on"}
                flex={1}
                miw={160}
                {...form.getInputProps(`posture.${at}.values`)}
              />
            ) : (
              <TextInput
                aria-label={`Version ${at + 1}`}
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
