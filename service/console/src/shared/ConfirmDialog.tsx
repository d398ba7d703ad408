import { Trans } from "@lingui/react/macro";
import { Button, Group, Stack } from "@mantine/core";
import type { UseMutationResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Dialog } from "./Dialog";
import { ProblemNote } from "./ProblemNote";

/** Shows an act's effect and asks for confirmation. */
export function ConfirmDialog({
  onClose,
  title,
  act,
  mutation,
  mayAct = true,
  children,
}: {
  onClose: () => void;
  title: string;
  act: string;
  mutation: Pick<UseMutationResult<unknown, Error, void>, "mutate" | "isPending" | "error">;
  mayAct?: boolean;
  children: ReactNode;
}) {
  return (
    <Dialog opened onClose={onClose} title={title}>
      <Stack>
        {children}
        {mutation.error && <ProblemNote error={mutation.error} />}
        <Group justify="flex-end" wrap="wrap-reverse">
          <Button variant="default" onClick={onClose} data-autofocus>
            <Trans>Cancel</Trans>
          </Button>
          <Button
            color="red"
            onClick={() => mutation.mutate()}
            loading={mutation.isPending}
            disabled={!mayAct}
          >
            {act}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
