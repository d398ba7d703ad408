import { i18n } from "@lingui/core";
import { msg } from "@lingui/core/macro";
import { Badge } from "@mantine/core";

import { stateOf, type Device } from "./queries";

export const SAID = {
  pending: { colour: "yellow", label: msg`waits for approval` },
  unneeded: { colour: "gray", label: msg`needs no approval` },
  approved: { colour: "culvert", label: msg`approved` },
  revoked: { colour: "gray", label: msg`revoked` },
} as const;

export function StateBadge({ device }: { device: Device }) {
  const { colour, label } = SAID[stateOf(device)];
  return (
    <Badge variant="light" color={colour} tt="none">
      {i18n._(label)}
    </Badge>
  );
}
