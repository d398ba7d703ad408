import { Trans } from "@lingui/react/macro";
import { Button, Stack, Text, TextInput } from "@mantine/core";

import { CopyText } from "./CopyText";
import { DialogButtons } from "./Dialog";
import { useUnsaved } from "./useUnsaved";

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
  useUnsaved(true);
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
      <DialogButtons>
        <CopyText value={value} />
        <Button variant="default" onClick={onClose}>
          <Trans>Done</Trans>
        </Button>
      </DialogButtons>
    </Stack>
  );
}
