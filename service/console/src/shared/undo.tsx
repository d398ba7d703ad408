/** A notice that offers to undo an act, for 15 seconds. */
import { Trans } from "@lingui/react/macro";
import { Button, Group, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";

import { problemOf } from "../api/problem";

const OFFERED_MS = 15_000;

/** `restore` undoes the act; `restored` is the notice after that. */
export function offerUndo(done: string, restored: string, restore: () => Promise<unknown>): void {
  const undo = async () => {
    notifications.hide(id);
    try {
      await restore();
      notifications.show({ message: restored });
    } catch (error) {
      const { detail, remedy } = problemOf(error);
      notifications.show({ color: "red", title: detail, message: remedy, autoClose: false });
    }
  };
  const id = notifications.show({
    autoClose: OFFERED_MS,
    message: (
      <Group justify="space-between" wrap="nowrap">
        <Text size="sm" className="name">
          {done}
        </Text>
        <Button flex="none" size="compact-sm" variant="light" onClick={() => void undo()}>
          <Trans>Undo</Trans>
        </Button>
      </Group>
    ),
  });
}
