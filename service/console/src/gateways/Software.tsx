import { Trans } from "@lingui/react/macro";
import { Badge, Text } from "@mantine/core";

import type { Gateway } from "../live/live";

/** The version of a gateway's software, and whether it is older than the controller's. */
export function Software({ of: { software, is_outdated } }: { of: Gateway }) {
  return (
    <>
      <Text span size="sm" {...(software === null && { c: "dimmed" })} mr="xs">
        {software ?? "–"}
      </Text>
      {is_outdated && (
        <Badge variant="light" color="yellow" tt="none">
          <Trans>to upgrade</Trans>
        </Badge>
      )}
    </>
  );
}
