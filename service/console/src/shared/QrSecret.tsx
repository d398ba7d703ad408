import { Trans } from "@lingui/react/macro";
import { Center, Code, Paper, Stack, Text } from "@mantine/core";
import { QRCodeSVG } from "qrcode.react";

import { useUnsaved } from "./useUnsaved";

const SIZE_PX = 200;

/** A link as a QR code; `typed`: with an authenticator's secret (otpauth URI) to type in. */
export function QrSecret({ value, title, typed = false }: { value: string; title: string; typed?: boolean }) {
  useUnsaved(typed);
  return (
    <Stack>
      <Center>
        <Paper p="md" bg="white" withBorder>
          <QRCodeSVG value={value} size={SIZE_PX} title={title} />
        </Paper>
      </Center>
      {typed && (
        <Text size="sm" c="dimmed">
          <Trans>
            Without a camera, type this in:{" "}
            <Code className="name" data-secret>
              {new URL(value).searchParams.get("secret")}
            </Code>
          </Trans>
        </Text>
      )}
    </Stack>
  );
}
