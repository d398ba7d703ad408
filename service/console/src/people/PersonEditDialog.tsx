import { t } from "@lingui/core/macro";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, tagged, type Tagged } from "../api/client";
import { FormDialog } from "../shared/FormDialog";
import { calledBy } from "../shared/PersonName";
import { PersonFields, personOf, type PersonForm } from "./PersonFields";
import { personQuery, type Person } from "./queries";

/** Changes the version of the person that it was opened with. */
export function PersonEditDialog({
  found: { row, etag },
  onClose,
}: {
  found: Tagged<Person>;
  onClose: () => void;
}) {
  const { name, display_name, email } = row;
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: async (person: PersonForm) =>
      tagged(
        await api.PUT("/api/v1/users/{name}", {
          params: { path: { name }, header: { "if-match": etag } },
          body: personOf(person),
        }),
      ),
    onSuccess: async (saved) => {
      const shown = calledBy(name, saved.row.display_name);
      notifications.show({ message: t`${shown} is saved` });
      queries.setQueryData(personQuery(name).queryKey, saved);
      await queries.invalidateQueries({ queryKey: ["users"] });
      onClose();
    },
    onError: () => void queries.invalidateQueries(personQuery(name)),
  });
  return (
    <FormDialog
      title={t`Change ${name}`}
      act={t`Save`}
      initial={{ display_name: display_name ?? "", email }}
      mutation={change}
      onClose={onClose}
    >
      {(form) => <PersonFields form={form} />}
    </FormDialog>
  );
}
