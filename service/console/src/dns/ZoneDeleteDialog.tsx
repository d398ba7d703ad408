import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Checkbox, List, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { api, tagged, type Schemas } from "../api/client";
import type { Zone } from "../live/live";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { offerUndo } from "../shared/undo";

/** Withdraws a zone's records and then forgets the zone, or forgets it at once where its server is gone. */
export function ZoneDeleteDialog({ zone, onClose }: { zone: Zone; onClose: () => void }) {
  const { name, display_name: shown, records } = zone;
  const [keeps, setKeeps] = useState(false);
  const count = Object.values(records).reduce((sum, of) => sum + of, 0);
  const remove = useMutation({
    mutationFn: async () => {
      // The live row may be older than the last change.
      const { row } = tagged(await api.GET("/api/v1/dns/zones/{name}", { params: { path: { name } } }));
      await api.DELETE("/api/v1/dns/zones/{name}", {
        params: { path: { name }, query: { keep_records: keeps } },
      });
      return row;
    },
    onSuccess: (deleted) => {
      offerUndo(
        keeps ? t`${shown} is deleted` : t`${shown} is deleted once its records are withdrawn`,
        t`${shown} is there again`,
        () => api.POST("/api/v1/dns/zones", { body: zoneOf(deleted) }),
      );
      onClose();
    },
  });
  return (
    <ConfirmDialog onClose={onClose} title={t`Delete ${shown}?`} act={t`Delete ${shown}`} mutation={remove}>
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

/** The zone as it was added. */
function zoneOf(zone: Zone): Schemas["ZoneIn"] {
  const { name, origin, view = "", instance = "default", server, port = 53, key, ttl = 60 } = zone;
  return { name, origin, view, instance, server, port, key, ttl, resources: zone.resources ?? null };
}
