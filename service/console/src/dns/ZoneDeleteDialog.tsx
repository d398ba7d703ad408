import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Checkbox, List, Stack } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { api } from "../api/client";
import type { Zone } from "../live/live";
import { ConfirmDialog } from "../shared/ConfirmDialog";

/** Withdraws a zone's records and then forgets the zone, or forgets it at once where its server is gone. */
export function ZoneDeleteDialog({
  zone: { name, display_name: shown, records },
  onClose,
}: {
  zone: Zone;
  onClose: () => void;
}) {
  const [keeps, setKeeps] = useState(false);
  const count = Object.values(records).reduce((sum, of) => sum + of, 0);
  const remove = useMutation({
    mutationFn: () =>
      api.DELETE("/api/v1/dns/zones/{name}", {
        params: { path: { name }, query: { keep_records: keeps } },
      }),
    onSuccess: () => {
      notifications.show({
        message: keeps ? t`${shown} is deleted` : t`${shown} is deleted once its records are withdrawn`,
      });
      onClose();
    },
  });
  return (
    <ConfirmDialog onClose={onClose} title={t`Delete ${shown}?`} act={t`Delete`} mutation={remove}>
      <Stack>
        <List size="sm" spacing={4}>
          <List.Item>
            {keeps
              ? t`Its records stay at the name server, and nobody keeps them up to date`
              : plural(count, {
                  0: "It has no record to withdraw",
                  one: "Withdraws # record from the name server",
                  other: "Withdraws # records from the name server",
                })}
          </List.Item>
          <List.Item>
            <Trans>Names in this zone open only for devices that know them otherwise</Trans>
          </List.Item>
        </List>
        <Checkbox
          label={t`The name server is gone: forget the zone at once`}
          checked={keeps}
          onChange={({ currentTarget }) => setKeeps(currentTarget.checked)}
        />
      </Stack>
    </ConfirmDialog>
  );
}
