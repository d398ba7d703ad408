/** The form of a new row on a page of its own. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Group, Stack } from "@mantine/core";
import { useForm, type UseFormInput, type UseFormReturnType } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { byField, problemOf } from "../api/problem";
import type { OnBreaks } from "./Effect";
import { ButtonLink } from "./links";
import { ProblemNote } from "./ProblemNote";
import { useUnsaved } from "./useUnsaved";

export interface Created<Form> {
  initial: Form;
  /** The paths of the form's fields, beside which faults are shown. */
  fieldsOf: (form: Form) => readonly string[];
  /** The API's names of fields to the form's, if they differ. */
  renamed?: Readonly<Record<string, string>>;
  validate?: UseFormInput<Form>["validate"];
}

export function CreateForm<Form extends Record<string, unknown>, Row>({
  label,
  created: { initial, fieldsOf, renamed, validate },
  create,
  onCreated,
  list,
  submit,
  children,
}: {
  label: string;
  created: Created<Form>;
  create: (form: Form) => Promise<Row>;
  onCreated: (row: Row) => void | Promise<void>;
  /** The page to which “Cancel” leads. */
  list: "/gateways" | "/groups" | "/policies" | "/site-tunnels";
  /** The button's text. */
  submit?: string;
  /** `onBreaks`: whether the controller would refuse the new row for an assertion, as its effect says. */
  children: (form: UseFormReturnType<Form>, onBreaks: OnBreaks) => ReactNode;
}) {
  const form = useForm<Form>({ initialValues: initial, ...(validate && { validate }) });
  const [isBroken, setBroken] = useState(false);
  useUnsaved(form.isDirty());
  const placed = (error: Error) => byField(problemOf(error), fieldsOf(form.values), renamed);
  const save = useMutation({
    mutationFn: create,
    onError: (error) => form.setErrors(placed(error).fields),
    onSuccess: onCreated,
  });
  return (
    <form onSubmit={form.onSubmit((values) => save.mutate(values))} aria-label={label}>
      <Stack gap="lg">
        {children(form, setBroken)}
        {save.error && placed(save.error).rest && !isBroken && <ProblemNote error={save.error} />}
        <Group>
          <Button type="submit" loading={save.isPending} disabled={isBroken}>
            {submit ?? t`Add it`}
          </Button>
          <ButtonLink variant="default" to={list}>
            <Trans>Cancel</Trans>
          </ButtonLink>
        </Group>
      </Stack>
    </form>
  );
}
