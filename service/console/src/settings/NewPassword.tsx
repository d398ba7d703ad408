import { PasswordInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api } from "../api/client";
import { NO_PROOF, ProofFields, typed } from "./ProofFields";
import { ProofForm } from "./ProofForm";

const SHORTEST_PASSWORD = 12;
const NOTHING = { ...NO_PROOF, new_password: "" };

export function NewPassword({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (form: typeof NOTHING) =>
      api.PUT("/api/v1/session/password", { body: { ...form, code: typed(form.code) } }),
    onSuccess: async () => {
      notifications.show({ message: "Your password is changed" });
      await queries.invalidateQueries({ queryKey: ["account"] });
      onClose();
    },
  });
  return (
    <ProofForm
      title="Change your password"
      act="Change it"
      initial={NOTHING}
      mutation={change}
      onClose={onClose}
    >
      {(form) => (
        <>
          <ProofFields form={form} label="Password until now" />
          <PasswordInput
            label="New password"
            description={`At least ${SHORTEST_PASSWORD} characters`}
            autoComplete="new-password"
            required
            {...form.getInputProps("new_password")}
          />
        </>
      )}
    </ProofForm>
  );
}
