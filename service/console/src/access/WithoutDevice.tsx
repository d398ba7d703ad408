import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Alert, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { api, page } from "../api/client";
import type { Reached } from "../people/queries";
import { AnchorLink } from "../shared/links";
import { Loading } from "../shared/Loading";
import { Grants } from "./Grants";

const ROWS = 500;

/** The resource with this name, or the one that begins with this label, among all that policies name for the person; null where there is none. */
async function reachedAs(user: string, name: string): Promise<Reached | null> {
  const asked = name.toLowerCase().replace(/\.$/, "");
  const isShort = !asked.includes(".");
  const begun: Reached[] = [];
  let cursor: string | null = null;
  do {
    const part: { rows: Reached[]; cursor: string | null } = page(
      await api.GET("/api/v1/users/{name}/access", {
        params: { path: { name: user }, query: { limit: ROWS, ...(cursor !== null && { cursor }) } },
      }),
    );
    const found = part.rows.find(({ fqdn, display_name }) => fqdn === asked || display_name === asked);
    if (found) return found;
    if (isShort) begun.push(...part.rows.filter(({ fqdn }) => fqdn.startsWith(`${asked}.`)));
    cursor = part.cursor;
  } while (cursor !== null);
  return begun.length === 1 ? (begun[0] ?? null) : null;
}

/** The answer for a person without a device: the policies, which is all that can be said before an enrolment. */
export function WithoutDevice({ user, name }: { user: string; name: string }) {
  const { data: found, isPending } = useQuery({
    queryKey: ["policies", "of", "person", user, "to", name],
    queryFn: () => reachedAs(user, name),
  });
  if (isPending) return <Loading forWhat={t`the answer`} />;
  return (
    <Alert variant="light" color="yellow" title={t`${user} has no device yet`}>
      {found == null ? (
        <Text size="sm">
          <Trans>No policy lets {user} reach this name either.</Trans>
        </Text>
      ) : (
        <>
          <Text size="sm">
            <Trans>Once a computer is enrolled, these policies decide about {found.display_name}:</Trans>
          </Text>
          <Grants grants={found.grants} />
        </>
      )}
      <AnchorLink to="/people/of/$name" params={{ name: user }} size="sm" underline="always">
        <Trans>Invite a computer of {user}</Trans>
      </AnchorLink>
    </Alert>
  );
}
