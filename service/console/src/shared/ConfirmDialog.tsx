import { t } from "@lingui/core/macro";
import { Button, Stack } from "@mantine/core";
import type { UseMutationResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Dialog, DialogButtons } from "./Dialog";
import { ProblemNote } from "./ProblemNote";

/** Shows an act's effect and asks for confirmation. The buttons name what they do; the act's is red where something is cut. */
export function ConfirmDialog({
  onClose,
  title,
  act,
  keep = t`Keep it`,
  harmless = false,
  mutation,
  mayAct = true,
  children,
}: {
  onClose: () => void;
  title: string;
  act: string;
  keep?: string;
  harmless?: boolean;
  mutation: Pick<UseMutationResult<unknown, Error, void>, "mutate" | "isPending" | "error">;
  mayAct?: boolean;
  children: ReactNode;
}) {
  return (
    <Dialog opened onClose={onClose} title={title}>
      <Stack>
        {children}
        {mutation.error && <ProblemNote error={mutation.error} />}
        <DialogButtons>
          <Button variant="default" onClick={onClose} data-autofocus>
            {keep}
          </Button>
          <Button
            {...(!harmless && { color: "red" })}
            onClick={() => mutation.mutate()}
            loading={mutation.isPending}
            disabled={!mayAct}
            maw="100%"
          >
            <span className="ellipsis">{act}</span>
          </Button>
        </DialogButtons>
      </Stack>
    </Dialog>
  );
}
