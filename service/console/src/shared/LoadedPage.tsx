import { Stack } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { ProblemNote } from "./ProblemNote";
import { Loading } from "./Loading";
import { ButtonLink } from "./links";

const TITLES = {
  "/groups": "Groups",
  "/policies": "Policies",
  "/resources": "Resources",
  "/site-tunnels": "Site tunnels",
} as const;

/** A page of one row, also while the row is loading and if it cannot be loaded. */
export function LoadedPage<Row>({
  query,
  name,
  list,
  children,
}: {
  query: UseQueryResult<Row>;
  name: string;
  /** The address of the list page of such rows. */
  list: keyof typeof TITLES;
  children: (found: Row) => ReactNode;
}) {
  if (query.isPending) return <Loading forWhat={name} />;
  if (query.isError)
    return (
      <Stack align="flex-start">
        <ProblemNote error={query.error} />
        <ButtonLink to={list} variant="default">
          Open {TITLES[list]}
        </ButtonLink>
      </Stack>
    );
  return children(query.data);
}
