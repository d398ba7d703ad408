import { plural, t } from "@lingui/core/macro";
import { useMutation, useQuery, useQueryClient, type UseQueryOptions } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { ConfirmDialog } from "./ConfirmDialog";
import { Breaks, type Assertion } from "./Effect";
import { ProblemNote } from "./ProblemNote";
import { offerUndo } from "./undo";
import { Loading } from "./Loading";

/** Deletes a row after its effect was shown, and offers to undo it. */
export function DeleteDialog<Use, Deleted extends { tunnels_closed: number }>({
  name,
  use,
  rowKey,
  remove,
  restore,
  restored,
  mayDelete = () => true,
  onClose,
  onDeleted,
  children,
}: {
  name: string;
  /** The effect of the deletion, asked of the controller. */
  use: UseQueryOptions<Use, Error, Use, string[]>;
  /** The key of the row's own query, which is forgotten. */
  rowKey: readonly unknown[];
  remove: () => Promise<Deleted>;
  restore: (deleted: Deleted) => Promise<unknown>;
  /** The notice after an undo. */
  restored?: string;
  /** Whether the button is enabled; `effect` is undefined until it is known. */
  mayDelete?: (effect: Use | undefined) => boolean;
  onClose: () => void;
  /** Leads to another page. */
  onDeleted: () => Promise<void>;
  children: (effect: Use) => ReactNode;
}) {
  const queries = useQueryClient();
  const found = useQuery(use);
  const breaks = breaksOf(found.data);
  const mutation = useMutation({
    mutationFn: remove,
    onSuccess: async (deleted) => {
      const closed = deleted.tunnels_closed;
      offerUndo(
        closed === 0
          ? t`${name} is deleted`
          : t`${name} is deleted, ${plural(closed, { one: "# tunnel closed", other: "# tunnels closed" })}`,
        restored ?? t`${name} is there again`,
        () => restore(deleted),
      );
      await onDeleted();
      queries.removeQueries({ queryKey: rowKey });
    },
  });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={t`Delete ${name}?`}
      act={t`Delete ${name}`}
      mutation={mutation}
      mayAct={mayDelete(found.data) && breaks.length === 0}
    >
      {found.isPending && <Loading forWhat={t`the effect`} />}
      {found.isSuccess && children(found.data)}
      <Breaks of={breaks} />
      {found.isError && <ProblemNote error={found.error} />}
    </ConfirmDialog>
  );
}

/** The assertions that a deletion would break; a row of some kinds is in none. */
const breaksOf = (use: unknown): readonly Assertion[] =>
  typeof use === "object" && use !== null && "breaks" in use ? (use.breaks as Assertion[]) : [];
