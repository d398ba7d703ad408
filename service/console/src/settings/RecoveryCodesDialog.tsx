import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Stack, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { RecoveryCodes } from "../session/RecoveryCodes";
import { sessionQuery } from "../session/session";
import { Dialog, DialogButtons } from "../shared/Dialog";
import { FormDialog } from "../shared/FormDialog";
import { NO_PROOF, ProofFields, typed, type Proof } from "./ProofFields";

export function RecoveryCodesDialog({ onClose }: { onClose: () => void }) {
  const name = useQuery(sessionQuery).data?.name ?? "";
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
  return (
    <Dialog opened onClose={onClose} title={t`Your recovery codes`}>
      <Stack>
        <RecoveryCodes name={name} codes={make.data.codes} />
        <DialogButtons>
          <Button onClick={onClose}>
            <Trans>I have saved them</Trans>
          </Button>
        </DialogButtons>
      </Stack>
    </Dialog>
  );
}
