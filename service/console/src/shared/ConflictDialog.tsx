import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Stack, Table, Text } from "@mantine/core";

import { Dialog, DialogButtons } from "./Dialog";
import { differences } from "./differences";
import { Name } from "./Name";

/** Shows the person's and the other administrator's version of a row, and asks which one to keep. */
export function ConflictDialog({
  opened,
  what,
  mine,
  theirs,
  onMine,
  onTheirs,
  onClose,
}: {
  opened: boolean;
  what: string;
  mine: object;
  theirs: object;
  onMine: () => void;
  onTheirs: () => void;
  onClose: () => void;
}) {
  return (
    <Dialog opened={opened} onClose={onClose} title={t`Another administrator has changed this`} size="lg">
      <Stack>
        <Text size="sm">
          <Trans>
            Since you began to edit,{" "}
            <Text span className="name" fw={600} inherit>
              {what}
            </Text>{" "}
            was changed. Which version should be kept?
          </Trans>
        </Text>
        <Table aria-label={t`Both versions`}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>
                <Trans>Field</Trans>
              </Table.Th>
              <Table.Th>
                <Trans>Current version</Trans>
              </Table.Th>
              <Table.Th>
                <Trans>Your version</Trans>
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {differences(mine, theirs).map((difference) => (
              <Table.Tr key={difference.field}>
                <Table.Td>{difference.field}</Table.Td>
                <Table.Td className="name">
                  <Name>{difference.theirs}</Name>
                </Table.Td>
                <Table.Td className="name">
                  <Name>{difference.mine}</Name>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
        <DialogButtons>
          <Button variant="default" onClick={onTheirs}>
            <Trans>Keep theirs</Trans>
          </Button>
          <Button onClick={onMine}>
            <Trans>Save mine</Trans>
          </Button>
        </DialogButtons>
      </Stack>
    </Dialog>
  );
}
