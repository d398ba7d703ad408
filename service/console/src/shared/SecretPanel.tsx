import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, CopyButton, Group, Stack, Text, TextInput } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

/** A secret that the controller does not keep. */
export function SecretPanel({
  label,
  value,
  about,
  onClose,
}: {
  label: string;
  value: string;
  about: string;
  onClose: () => void;
}) {
  return (
    <Stack>
      <TextInput
        label={label}
        readOnly
        value={value}
        classNames={{ input: "mono" }}
        onFocus={(event) => event.target.select()}
      />
      <Text size="sm" c="dimmed">
        {about} <Trans>It is shown only once.</Trans>
      </Text>
      <Group justify="flex-end">
        <CopyButton value={value}>
          {({ copied, copy }) => (
            <Button
              variant="default"
              leftSection={copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
              onClick={copy}
            >
              {copied ? t`Copied` : t`Copy`}
            </Button>
          )}
        </CopyButton>
        <Button onClick={onClose}>
          <Trans>Done</Trans>
        </Button>
      </Group>
    </Stack>
  );
}
