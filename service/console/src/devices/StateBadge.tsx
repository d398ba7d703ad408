import { i18n } from "@lingui/core";
import { msg } from "@lingui/core/macro";
import { Badge } from "@mantine/core";

import type { Device } from "./queries";

export const SAID = {
  pending: { colour: "yellow", label: msg`waits for approval` },
  approved: { colour: "culvert", label: msg`approved` },
  revoked: { colour: "gray", label: msg`revoked` },
} as const;

export function StateBadge({ state }: { state: Device["state"] }) {
  return (
    <Badge variant="light" color={SAID[state].colour} tt="none">
      {i18n._(SAID[state].label)}
    </Badge>
  );
}
