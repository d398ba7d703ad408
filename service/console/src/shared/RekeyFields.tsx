import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { NumberInput, SimpleGrid, Stack, Text } from "@mantine/core";

import { separators } from "./words";

/** The limits of an SA: near one of them the keys are renewed. */
export function RekeyFields({ form }: { form: { getInputProps: (path: string) => object } }) {
  const labels = { soft_seconds: t`Seconds`, soft_packets: t`Packets`, soft_bytes: t`Bytes` };
  return (
    <Stack gap={6} role="group" aria-label={t`New keys after`}>
      <Text size="sm" fw={600}>
        <Trans>New keys after</Trans>
      </Text>
      <Text size="xs" c="dimmed">
        <Trans>What is reached first counts; 0: no limit of that kind</Trans>
      </Text>
      <SimpleGrid cols={{ base: 1, xs: 3 }}>
        {Object.entries(labels).map(([field, label]) => (
          <NumberInput
            key={field}
            label={label}
            min={0}
            max={Number.MAX_SAFE_INTEGER}
            {...separators()}
            allowDecimal={false}
            {...form.getInputProps(`rekey.${field}`)}
          />
        ))}
      </SimpleGrid>
    </Stack>
  );
}
