import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Code, CopyButton, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { Dialog } from "../shared/Dialog";
import { FormDialog } from "../shared/FormDialog";
import { NO_PROOF, ProofFields, typed, type Proof } from "./ProofFields";

export function RecoveryCodesDialog({ onClose }: { onClose: () => void }) {
  const make = useMutation({
    mutationFn: async (proof: Proof) =>
      body(await api.POST("/api/v1/session/recovery-codes", { body: { ...proof, code: typed(proof.code) } })),
  });
  if (make.data === undefined)
    return (
      <FormDialog
        title={t`New recovery codes`}
        act={t`Make new codes`}
        initial={NO_PROOF}
        mutation={make}
        onClose={onClose}
      >
        {(form) => (
          <>
            <Text size="sm">
              <Trans>The new codes replace all existing recovery codes.</Trans>
            </Text>
            <ProofFields form={form} />
          </>
        )}
      </FormDialog>
    );
  const { codes } = make.data;
  return (
    <Dialog opened onClose={onClose} title={t`Your recovery codes`}>
      <Stack>
        <Text size="sm">
          <Trans>Each works once. Keep them apart from your authenticator. They are shown only once.</Trans>
        </Text>
        <SimpleGrid cols={2} spacing="xs" data-codes>
          {codes.map((code) => (
            <Code key={code}>{code}</Code>
          ))}
        </SimpleGrid>
        <Group justify="flex-end">
          <CopyButton value={codes.join("\n")}>
            {({ copied, copy }) => (
              <Button variant="default" onClick={copy}>
                {copied ? t`Copied` : t`Copy`}
              </Button>
            )}
          </CopyButton>
          <Button onClick={onClose}>
            <Trans>I have saved them</Trans>
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
