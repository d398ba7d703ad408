import { Trans } from "@lingui/react/macro";
import { Button } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";

export function DeleteButton({ onClick }: { onClick: () => void }) {
  return (
    <Button variant="default" c="red" leftSection={<IconTrash size={16} />} onClick={onClick}>
      <Trans>Delete</Trans>
    </Button>
  );
}
