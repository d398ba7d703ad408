import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { ActionIcon, Menu } from "@mantine/core";
import { IconDots, IconPencil, IconTrash } from "@tabler/icons-react";
import { useState } from "react";

import type { Zone } from "../live/live";
import { ZoneDeleteDialog } from "./ZoneDeleteDialog";
import { ZoneEditDialog } from "./ZoneEditDialog";

/** The menu of a zone's card; a zone that is being withdrawn can only be forgotten. */
export function ZoneActs({ zone }: { zone: Zone }) {
  const { name, display_name: shown, retiring } = zone;
  const [doing, setDoing] = useState<"edit" | "delete" | null>(null);
  const done = () => setDoing(null);
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon variant="default" size="lg" aria-label={t`More about ${shown}`}>
            <IconDots size={18} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {!retiring && (
            <Menu.Item leftSection={<IconPencil size={16} />} onClick={() => setDoing("edit")}>
              <Trans>Change</Trans>
            </Menu.Item>
          )}
          <Menu.Item
            c="var(--mantine-color-error)"
            leftSection={<IconTrash size={16} />}
            onClick={() => setDoing("delete")}
          >
            <Trans>Delete</Trans>
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {doing === "edit" && <ZoneEditDialog name={name} shown={shown} onClose={done} />}
      {doing === "delete" && <ZoneDeleteDialog zone={zone} onClose={done} />}
    </>
  );
}
