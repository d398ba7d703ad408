import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { PasswordInput, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { enter } from "../session/session";
import { FormDialog } from "../shared/FormDialog";
import { KeptPasskeysField } from "./KeptPasskeysField";
import { NO_PROOF, ProofFields, typed } from "./ProofFields";

const SHORTEST_PASSWORD = 12;
const NOTHING = { ...NO_PROOF, new_password: "", keep_passkeys: [] as string[] };

export function PasswordDialog({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: async (form: typeof NOTHING) =>
      body(await api.PUT("/api/v1/session/password", { body: { ...form, code: typed(form.code) } })),
    onSuccess: async (session) => {
      enter(queries, session);
      notifications.show({ message: t`Your password is changed` });
      await queries.invalidateQueries({ queryKey: ["account"] });
      onClose();
    },
  });
  return (
    <FormDialog
      title={t`Change your password`}
      act={t`Change password`}
      initial={NOTHING}
      mutation={change}
      onClose={onClose}
    >
      {(form) => (
        <>
          <ProofFields form={form} label={t`Current password`} />
          <PasswordInput
            label={t`New password`}
            description={t`At least ${SHORTEST_PASSWORD} characters`}
            autoComplete="new-password"
            required
            {...form.getInputProps("new_password")}
          />
          <KeptPasskeysField
            kept={form.values.keep_passkeys}
            onChange={(kept) => form.setFieldValue("keep_passkeys", kept)}
          />
          <Text size="sm" c="dimmed">
            <Trans>
              Your other sessions, recovery codes and open invitations end. Make new recovery codes
              afterwards.
            </Trans>
          </Text>
        </>
      )}
    </FormDialog>
  );
}
