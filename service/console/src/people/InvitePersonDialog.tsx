import { t } from "@lingui/core/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { FormDialog } from "../shared/FormDialog";
import { NameField } from "../shared/NamesField";
import { InviteDialog, makeInvitation } from "./InviteDialog";

const NEW = { user: "" };

/** The invitation of a person who is chosen first. */
export function InvitePersonDialog({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const invite = useMutation({
    mutationFn: ({ user }: typeof NEW) => makeInvitation(user),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["invitations"] }),
  });
  if (invite.data !== undefined)
    return <InviteDialog name={invite.variables.user} made={invite.data} onClose={onClose} />;
  return (
    <FormDialog
      title={t`Invite a person`}
      act={t`Make a link`}
      initial={NEW}
      mutation={invite}
      onClose={onClose}
    >
      {(form) => (
        <NameField
          area="users"
          label={t`Person`}
          description={t`The link enrols one computer of this person.`}
          placeholder={t`Choose a person`}
          required
          data-autofocus
          {...form.getInputProps("user")}
          value={form.values.user || null}
          onChange={(user) => form.setFieldValue("user", user ?? "")}
        />
      )}
    </FormDialog>
  );
}
