import { Trans } from "@lingui/react/macro";
import { Button, Stack } from "@mantine/core";
import { useForm, type UseFormReturnType } from "@mantine/form";
import type { UseMutationResult } from "@tanstack/react-query";
import { useEffect, type ReactNode } from "react";

import { byField, problemOf } from "../api/problem";
import { Dialog, DialogButtons } from "./Dialog";
import { ProblemNote } from "./ProblemNote";

/** A dialog with a form, whose faults are shown beside their fields. */
export function FormDialog<Form extends Record<string, unknown>>({
  title,
  act,
  initial,
  mutation: { mutate, isPending, error },
  onClose,
  size,
  children,
}: {
  title: string;
  act: string;
  initial: Form;
  mutation: Pick<UseMutationResult<unknown, Error, Form>, "mutate" | "isPending" | "error">;
  onClose: () => void;
  size?: string;
  children: (form: UseFormReturnType<Form>) => ReactNode;
}) {
  const form = useForm<Form>({ initialValues: initial });
  const { setErrors } = form;
  const placed = error && byField(problemOf(error), Object.keys(initial));
  useEffect(() => {
    if (error) setErrors(byField(problemOf(error), Object.keys(initial)).fields);
  }, [error, initial, setErrors]);
  return (
    <Dialog opened onClose={onClose} title={title} {...(size !== undefined && { size })}>
      <form onSubmit={form.onSubmit((values) => mutate(values))}>
        <Stack>
          {children(form)}
          {placed?.rest && <ProblemNote error={error} />}
          <DialogButtons>
            <Button variant="default" onClick={onClose}>
              <Trans>Cancel</Trans>
            </Button>
            <Button type="submit" loading={isPending}>
              {act}
            </Button>
          </DialogButtons>
        </Stack>
      </form>
    </Dialog>
  );
}
