import { t } from "@lingui/core/macro";
import { Button, CopyButton, type ButtonProps } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

/** A button that copies the text, and says so. */
export function CopyText({ value, ...button }: { value: string } & ButtonProps) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Button
          {...button}
          leftSection={copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
          onClick={copy}
        >
          {copied ? t`Copied` : t`Copy`}
        </Button>
      )}
    </CopyButton>
  );
}
