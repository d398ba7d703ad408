import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { List, Text } from "@mantine/core";

import { api, body } from "../api/client";
import { DeleteDialog } from "../shared/DeleteDialog";
import { calledBy } from "../shared/PersonName";
import { closes } from "../shared/words";
import { personUseQuery, type Person } from "./queries";
import { restored, whatIsLost } from "./restored";

/** The off-boarding in one act: all that a person has ends with it. */
export function PersonDeleteDialog({
  person,
  onClose,
  onDeleted,
}: {
  person: Person;
  onClose: () => void;
  onDeleted: () => Promise<void>;
}) {
  const { name } = person;
  const shown = calledBy(name, person.display_name);
  return (
    <DeleteDialog
      name={shown}
      use={personUseQuery(name)}
      rowKey={["users", "one", name]}
      remove={async () => {
        const lost = await whatIsLost(name);
        const params = { path: { name } };
        return { ...body(await api.DELETE("/api/v1/users/{name}", { params })), ...lost };
      }}
      restore={(lost) => restored(person, lost)}
      restored={t`${shown} is there again; their computers have to be enrolled anew`}
      onClose={onClose}
      onDeleted={onDeleted}
    >
      {({ tunnels, devices, invitations, groups, policies_deleted: policies }) => (
        <List size="sm" spacing={4}>
          <List.Item>{closes(tunnels)}</List.Item>
          <List.Item>
            {devices.length === 0 ? (
              <Trans>No computer is enrolled</Trans>
            ) : (
              <>
                {plural(devices.length, { one: "Revokes # computer", other: "Revokes # computers" })}
                <Names names={devices} />
              </>
            )}
          </List.Item>
          {invitations > 0 && (
            <List.Item>
              {plural(invitations, {
                one: "Withdraws # open invitation",
                other: "Withdraws # open invitations",
              })}
            </List.Item>
          )}
          {groups.length > 0 && (
            <List.Item>
              {plural(groups.length, { one: "Leaves # group", other: "Leaves # groups" })}
              <Names names={groups} />
            </List.Item>
          )}
          {policies.length > 0 && (
            <List.Item>
              {plural(policies.length, {
                one: "Deletes # policy for this person alone",
                other: "Deletes # policies for this person alone",
              })}
              <Names names={policies} />
            </List.Item>
          )}
        </List>
      )}
    </DeleteDialog>
  );
}

function Names({ names }: { names: readonly string[] }) {
  return (
    <Text span inherit c="dimmed" className="name">
      : {names.join(", ")}
    </Text>
  );
}
