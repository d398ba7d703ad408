import { i18n, type MessageDescriptor } from "@lingui/core";
import { msg } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Stack } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { PageHead } from "./PageHead";
import { ProblemNote } from "./ProblemNote";
import { Loading } from "./Loading";
import { ButtonLink } from "./links";

const TITLES: Record<
  "/gateways" | "/groups" | "/people" | "/policies" | "/resources" | "/site-tunnels",
  MessageDescriptor
> = {
  "/gateways": msg`Gateways`,
  "/groups": msg`Groups`,
  "/people": msg`People`,
  "/policies": msg`Policies`,
  "/resources": msg`Resources`,
  "/site-tunnels": msg`Site tunnels`,
};

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
  const title = i18n._(TITLES[list]);
  if (query.isError)
    return (
      <Stack align="flex-start">
        <PageHead title={name} />
        <ProblemNote error={query.error} />
        <ButtonLink to={list} variant="default">
          <Trans>Open {title}</Trans>
        </ButtonLink>
      </Stack>
    );
  return children(query.data);
}
