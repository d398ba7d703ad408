import { Trans } from "@lingui/react/macro";
import { Button, Center, Code, Paper, Stack, Text } from "@mantine/core";
import { QRCodeSVG } from "qrcode.react";

import { CopyText } from "./CopyText";
import { useUnsaved } from "./useUnsaved";

const SIZE_PX = 200;

/** A link as a QR code; `typed`: with an authenticator's secret (otpauth URI) to type in. */
export function QrSecret({ value, title, typed = false }: { value: string; title: string; typed?: boolean }) {
  useUnsaved(typed);
  const secret = new URL(value).searchParams.get("secret") ?? "";
  return (
    <Stack>
      <Center>
        <Paper p="md" bg="white" withBorder>
          <QRCodeSVG value={value} size={SIZE_PX} title={title} />
        </Paper>
      </Center>
      {typed && (
        <>
          {/* A phone cannot scan its own screen. In a new tab, because the browser would ask before it leaves this page. */}
          <Button
            component="a"
            href={value}
            target="_blank"
            rel="noreferrer"
            variant="default"
            hiddenFrom="sm"
          >
            <Trans>Open in the authenticator</Trans>
          </Button>
          <Text size="sm" c="dimmed">
            <Trans>
              Without a camera, type this in:{" "}
              <Code className="name" data-secret>
                {secret}
              </Code>
            </Trans>
          </Text>
          <CopyText value={secret} variant="default" size="xs" style={{ alignSelf: "flex-start" }} />
        </>
      )}
    </Stack>
  );
}
