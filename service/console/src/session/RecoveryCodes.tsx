import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Code, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconDownload, IconPrinter } from "@tabler/icons-react";

import { CopyText } from "../shared/CopyText";
import { useUnsaved } from "../shared/useUnsaved";

/** New recovery codes, to copy, download and print. The controller keeps only their hashes. */
export function RecoveryCodes({ name, codes }: { name: string; codes: readonly string[] }) {
  useUnsaved(true);
  const { host } = window.location;
  const title = t`Culvert: recovery codes of ${name} at ${host}`;
  return (
    <Stack>
      <Text size="sm">
        <Trans>Each works once. Keep them apart from your authenticator. They are shown only once.</Trans>
      </Text>
      <div className="printed">
        <p>{title}</p>
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="xs" data-codes>
          {codes.map((code) => (
            <Code key={code} ta="center" fz="sm">
              {code}
            </Code>
          ))}
        </SimpleGrid>
      </div>
      <Group gap="xs">
        <CopyText value={codes.join("\n")} variant="default" />
        <Button
          variant="default"
          leftSection={<IconDownload size={16} />}
          onClick={() => download(`culvert-recovery-codes-${name}.txt`, [title, "", ...codes, ""].join("\n"))}
        >
          <Trans>Download</Trans>
        </Button>
        <Button variant="default" leftSection={<IconPrinter size={16} />} onClick={() => window.print()}>
          <Trans>Print</Trans>
        </Button>
      </Group>
    </Stack>
  );
}

function download(name: string, content: string) {
  const url = URL.createObjectURL(new Blob([content], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
