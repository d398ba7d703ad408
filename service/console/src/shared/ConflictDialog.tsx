import { Button, Group, Stack, Table, Text } from "@mantine/core";

import { Dialog } from "./Dialog";
import { differences } from "./differences";

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
    <Dialog opened={opened} onClose={onClose} title="Another administrator has changed this" size="lg">
      <Stack>
        <Text size="sm">
          Since you began to edit,{" "}
          <Text span className="name" fw={550} inherit>
            {what}
          </Text>{" "}
          was changed. Which version should be kept?
        </Text>
        <Table aria-label="Both versions">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Field</Table.Th>
              <Table.Th>Current version</Table.Th>
              <Table.Th>Your version</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {differences(mine, theirs).map((difference) => (
              <Table.Tr key={difference.field}>
                <Table.Td>{difference.field}</Table.Td>
                <Table.Td className="name">{difference.theirs}</Table.Td>
                <Table.Td className="name">{difference.mine}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
        <Group justify="flex-end">
          <Button variant="default" onClick={onTheirs}>
            Keep theirs
          </Button>
          <Button onClick={onMine}>Save mine</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
