import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Divider, Stack, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconFingerprint } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { NO_PROOF, ProofFields, typed, type Proof } from "../settings/ProofFields";
import { Dialog, DialogButtons } from "../shared/Dialog";
import { ProblemNote } from "../shared/ProblemNote";
import { canUsePasskeys, isBrokenOff, proveByPasskey } from "./passkey";
import { enter, type Session } from "./session";

/** Asks for a proof before a change that would outlast a stolen session. */
export function ProofDialog({ session, onEnd }: { session: Session; onEnd: (isProven: boolean) => void }) {
  const queries = useQueryClient();
  const form = useForm({ initialValues: NO_PROOF });
  function renew(renewed: Session) {
    enter(queries, renewed);
    onEnd(true);
  }
  const byCode = useMutation({
    mutationFn: async (proof: Proof) =>
      body(await api.POST("/api/v1/session/proof", { body: { ...proof, code: typed(proof.code) } })),
    onSuccess: renew,
    onError: () => form.setFieldValue("code", ""),
  });
  const byPasskey = useMutation({ mutationFn: proveByPasskey, onSuccess: renew });
  const passkeyError = byPasskey.error;
  return (
    <Dialog opened onClose={() => onEnd(false)} title={t`Confirm your identity`} above>
      <Stack>
        <Text size="sm">
          <Trans>
            This changes access to the controller: confirm your identity (valid for five minutes).
          </Trans>
        </Text>
        {session.has_password && (
          <form
            onSubmit={form.onSubmit((proof) => {
              byPasskey.reset();
              byCode.mutate(proof);
            })}
          >
            <Stack>
              <ProofFields form={form} />
              {byCode.error && <ProblemNote error={byCode.error} />}
              <DialogButtons>
                <Button variant="default" onClick={() => onEnd(false)}>
                  <Trans>Cancel</Trans>
                </Button>
                <Button type="submit" loading={byCode.isPending}>
                  <Trans>Continue</Trans>
                </Button>
              </DialogButtons>
            </Stack>
          </form>
        )}
        {session.has_password && canUsePasskeys() && <Divider label={t`or`} />}
        {canUsePasskeys() && (
          <Button
            variant="default"
            leftSection={<IconFingerprint size={18} />}
            loading={byPasskey.isPending}
            onClick={() => byPasskey.mutate()}
          >
            <Trans>Use a passkey</Trans>
          </Button>
        )}
        {passkeyError && !isBrokenOff(passkeyError) && <ProblemNote error={passkeyError} />}
        {!session.has_password && (
          <Text size="sm" c="dimmed">
            <Trans>Without a passkey, sign out and in again instead.</Trans>
          </Text>
        )}
      </Stack>
    </Dialog>
  );
}
