import { Button, Group, Stack } from "@mantine/core";
import type { UseMutationResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Dialog } from "./Dialog";
import { ProblemNote } from "./ProblemNote";

/** What cuts something says so first. */
export function Confirm({
  opened,
  onClose,
  title,
  act,
  mutation,
  children,
}: {
  opened: boolean;
  onClose: () => void;
  title: string;
  act: string;
  mutation: Pick<UseMutationResult<unknown, Error, void>, "mutate" | "isPending" | "error">;
  children: ReactNode;
}) {
  return (
    <Dialog opened={opened} onClose={onClose} title={title}>
      <Stack>
        {children}
        {mutation.error && <ProblemNote error={mutation.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose} data-autofocus>
            Cancel
          </Button>
          <Button color="red" onClick={() => mutation.mutate()} loading={mutation.isPending}>
            {act}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
