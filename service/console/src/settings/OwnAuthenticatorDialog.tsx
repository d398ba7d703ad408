import { t } from "@lingui/core/macro";
import { TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "../api/client";
import { enter } from "../session/session";
import { FormDialog } from "../shared/FormDialog";
import { QrSecret } from "../shared/QrSecret";
import { KeptPasskeysField } from "./KeptPasskeysField";
import { NO_PROOF, ProofFields, typed, type Proof } from "./ProofFields";

const NO_CODE = { code: "", keep_passkeys: [] as string[] };

/** The old one is good until the new one has shown a code. */
export function OwnAuthenticatorDialog({ onClose }: { onClose: () => void }) {
  const begin = useMutation({
    mutationFn: async (proof: Proof) =>
      body(await api.POST("/api/v1/session/authenticator", { body: { ...proof, code: typed(proof.code) } })),
  });
  if (begin.data) return <QrCodeStep begun={begin.data} onClose={onClose} />;
  return (
    <FormDialog
      title={t`A new authenticator`}
      act={t`Continue`}
      initial={NO_PROOF}
      mutation={begin}
      onClose={onClose}
    >
      {(form) => <ProofFields form={form} />}
    </FormDialog>
  );
}

function QrCodeStep({ begun, onClose }: { begun: Schemas["NewAuthenticatorOut"]; onClose: () => void }) {
  const queries = useQueryClient();
  const confirm = useMutation({
    mutationFn: async ({ code, keep_passkeys }: typeof NO_CODE) =>
      body(
        await api.PUT("/api/v1/session/authenticator", {
          body: { pending: begun.pending, code: typed(code), keep_passkeys },
        }),
      ),
    onSuccess: async (session) => {
      enter(queries, session);
      notifications.show({ message: t`The new authenticator’s codes are valid now` });
      await queries.invalidateQueries({ queryKey: ["account"] });
      onClose();
    },
  });
  return (
    <FormDialog
      title={t`Scan this with the new authenticator`}
      act={t`Use this authenticator`}
      initial={NO_CODE}
      mutation={confirm}
      onClose={onClose}
    >
      {(form) => (
        <>
          <QrSecret value={begun.totp_uri} title={t`QR code for an authenticator`} typed />
          <TextInput
            label={t`A code that it shows`}
            autoComplete="one-time-code"
            required
            {...form.getInputProps("code")}
          />
          <KeptPasskeysField
            kept={form.values.keep_passkeys}
            onChange={(kept) => form.setFieldValue("keep_passkeys", kept)}
          />
        </>
      )}
    </FormDialog>
  );
}
