import { Trans } from "@lingui/react/macro";
import { Text, Tooltip } from "@mantine/core";

import type { Schemas } from "../api/client";
import { useNow } from "./useNow";
import { ago } from "./words";

/** The reason and time of the last denial. */
export function LastDenied({ denied }: { denied: Schemas["DeniedOut"] | null | undefined }) {
  const now = useNow();
  if (!denied)
    return (
      <Text size="sm" c="dimmed">
        <Trans>never</Trans>
      </Text>
    );
  return (
    <Tooltip label={denied.object.replace("/", " ")}>
      <div>
        <Text size="sm" className="name" lineClamp={2}>
          {denied.why}
        </Text>
        <Text size="xs" c="dimmed">
          {ago(Date.parse(denied.at), now)}
        </Text>
      </div>
    </Tooltip>
  );
}
