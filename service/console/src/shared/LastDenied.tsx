import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Text } from "@mantine/core";

import type { Schemas } from "../api/client";
import { useNow } from "./useNow";
import { Name } from "./Name";
import { ago } from "./words";

/** Why, with the name that was asked for, unless the reason has it. `name`: null if no name was asked for. */
export function whyWith(name: string | null, why: string | null): string {
  if (name === null || why?.includes(name) === true) return why ?? "";
  return why === null ? name : t`${name}: ${why}`;
}

/** The reason and time of the last denial. */
export function LastDenied({ denied }: { denied: Schemas["DeniedOut"] | null | undefined }) {
  const now = useNow();
  if (!denied)
    return (
      <Text size="sm" c="dimmed">
        <Trans>never</Trans>
      </Text>
    );
  const why = whyWith(denied.display_name, denied.why);
  return (
    <div>
      <Text size="sm" className="name" lineClamp={3} title={why}>
        <Name>{why}</Name>
      </Text>
      <Text size="xs" c="dimmed">
        {ago(Date.parse(denied.at), now)}
      </Text>
    </div>
  );
}
