/** The form of a row that others may change too: it replaces only the version with which editing began. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Group, Stack } from "@mantine/core";
import { useForm, type UseFormInput, type UseFormReturnType } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { tagged, type Tagged } from "../api/client";
import { byField, problemOf, ProblemError } from "../api/problem";
import { ConflictDialog } from "./ConflictDialog";
import type { OnBreaks } from "./Effect";
import { ProblemNote } from "./ProblemNote";
import { useUnsaved } from "./useUnsaved";

export interface Edited<Row, Form, Body> {
  /** The query of the row with that name. */
  query: (name: string) => { queryKey: readonly unknown[] };
  /** The name that people read, if it is another. */
  shownOf?: (row: Row) => string;
  formOf: (row: Row) => Form;
  /** The body to send; `before` is the row with which editing began. */
  bodyOf: (form: Form, before: Row) => Body;
  /** The paths of the form's fields, beside which faults are shown. */
  fieldsOf: (form: Form) => string[];
  /** The API's names of fields to the form's, if they differ. */
  renamed?: Readonly<Record<string, string>>;
  validate?: UseFormInput<Form>["validate"];
}

export function EditForm<
  Row extends { name: string },
  Form extends Record<string, unknown>,
  Body extends object,
>({
  label,
  found,
  edited: { query, shownOf = ({ name }) => name, formOf, bodyOf, fieldsOf, renamed, validate },
  mayWrite,
  write,
  saidOf = (name) => t`${name} is saved`,
  onSaved,
  children,
}: {
  label: string;
  /** The current row. */
  found: Tagged<Row>;
  edited: Edited<Row, Form, Body>;
  mayWrite: boolean;
  write: (body: Body, etag: string) => Promise<{ data?: Row; response: Response }>;
  /** The notice of a saved change. */
  saidOf?: (name: string) => string;
  onSaved?: (saved: Row) => void;
  /** `onBreaks`: whether the controller would refuse the change for an assertion, as its effect says. */
  children: (form: UseFormReturnType<Form>, before: Row, onBreaks: OnBreaks) => ReactNode;
}) {
  const queries = useQueryClient();
  const [base, setBase] = useState(found);
  // The version before `base`, which `found` has for a moment after a change is saved.
  const [replaced, setReplaced] = useState<string | null>(null);
  const [isBroken, setBroken] = useState(false);
  const form = useForm<Form>({ initialValues: formOf(base.row), ...(validate && { validate }) });
  useUnsaved(form.isDirty());
  const save = useMutation({
    mutationFn: async ({ etag }: { etag: string }) =>
      tagged(await write(bodyOf(form.values, base.row), etag)),
    onSuccess: (saved) => {
      take(saved);
      queries.setQueryData(query(saved.row.name).queryKey, saved);
      notifications.show({ message: saidOf(shownOf(saved.row)) });
      onSaved?.(saved.row);
    },
    onError: (error) => {
      form.setErrors(placed(error).fields);
      // Another administrator has changed the row.
      if (isStale(error)) void queries.refetchQueries(query(base.row.name));
    },
  });
  function placed(error: Error) {
    return byField(problemOf(error), fieldsOf(form.values), renamed);
  }
  function take(newer: Tagged<Row>) {
    setReplaced(base.etag);
    setBase(newer);
    form.setInitialValues(formOf(newer.row));
    form.setValues(formOf(newer.row));
    save.reset();
  }
  if (![base.etag, replaced].includes(found.etag) && !form.isDirty() && save.isIdle) take(found);
  const unplaced = save.error && placed(save.error).rest;
  return (
    <form onSubmit={form.onSubmit(() => save.mutate({ etag: base.etag }))} aria-label={label}>
      <fieldset disabled={!mayWrite} style={{ border: 0, padding: 0, margin: 0, minWidth: 0 }}>
        <Stack gap="lg" maw={760}>
          {children(form, base.row, setBroken)}
          {save.error && unplaced && !isStale(save.error) && !isBroken && <ProblemNote error={save.error} />}
          {mayWrite && (
            <Group>
              <Button type="submit" disabled={!form.isDirty() || isBroken} loading={save.isPending}>
                <Trans>Save</Trans>
              </Button>
              <Button variant="default" disabled={!form.isDirty()} onClick={() => form.reset()}>
                <Trans>Discard</Trans>
              </Button>
            </Group>
          )}
        </Stack>
      </fieldset>
      <ConflictDialog
        opened={isStale(save.error)}
        what={shownOf(base.row)}
        mine={bodyOf(form.values, base.row)}
        theirs={found.row}
        onMine={() => save.mutate({ etag: found.etag })}
        onTheirs={() => take(found)}
        onClose={() => save.reset()}
      />
    </form>
  );
}

function isStale(error: Error | null): boolean {
  return error instanceof ProblemError && error.reason === "VERSION_STALE";
}
