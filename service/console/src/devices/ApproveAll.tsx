import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, List, Progress, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { Dialog, DialogButtons } from "../shared/Dialog";
import { Loading } from "../shared/Loading";
import { calledBy } from "../shared/PersonName";
import { ProblemNote } from "../shared/ProblemNote";
import { useApproval } from "./DeviceActions";
import { allWaitingQuery, waitingQuery, type Device, type DeviceFilter } from "./queries";

const NAMED_MAX = 5;

type Sought = Pick<DeviceFilter, "q" | "user">;

/** Offers to approve each device that waits, also those that the list has not loaded; with a search, those that it finds. */
export function ApproveAll({ sought, onDone }: { sought: Sought; onDone: (ids: readonly string[]) => void }) {
  const waiting = useQuery(waitingQuery(sought)).data;
  const [isAsked, setAsked] = useState(false);
  const count = waiting?.rows.length ?? 0;
  return (
    <>
      {count > 1 && (
        <Button variant="default" onClick={() => setAsked(true)}>
          {waiting?.cursor === null
            ? t`Approve all ${count} that wait`
            : t`Approve all that wait (more than ${count})`}
        </Button>
      )}
      {isAsked && <ApproveAllDialog sought={sought} onClose={() => setAsked(false)} onDone={onDone} />}
    </>
  );
}

function ApproveAllDialog({
  sought,
  onClose,
  onDone,
}: {
  sought: Sought;
  onClose: () => void;
  onDone: (ids: readonly string[]) => void;
}) {
  const found = useQuery(allWaitingQuery(sought));
  const devices = found.data ?? [];
  const [done, setDone] = useState(0);
  const ended = (ids: readonly string[]) => {
    onDone(ids);
    onClose();
  };
  const approve = useApproval(ended, undefined, setDone);
  const count = devices.length;
  const title = plural(count, { one: "Approve # device?", other: "Approve # devices?" });
  return (
    <Dialog opened onClose={onClose} title={found.data === undefined ? t`Approve all that wait` : title}>
      <Stack>
        {found.isPending && <Loading forWhat={t`the devices`} />}
        {found.error && <ProblemNote error={found.error} />}
        {found.data !== undefined && <Named devices={devices} />}
        {approve.isPending && (
          <div role="status">
            <Text size="sm" mb={4}>
              <Trans>
                {done} of {count} are approved
              </Trans>
            </Text>
            <Progress value={(100 * done) / count} aria-label={t`Devices approved`} />
          </div>
        )}
        <DialogButtons>
          <Button variant="default" onClick={onClose} data-autofocus>
            <Trans>Cancel</Trans>
          </Button>
          <Button
            disabled={count === 0}
            loading={approve.isPending}
            onClick={() => approve.mutate(devices.map(({ id }) => id))}
          >
            {count === 0
              ? t`Approve`
              : plural(count, { one: "Approve # device", other: "Approve # devices" })}
          </Button>
        </DialogButtons>
      </Stack>
    </Dialog>
  );
}

function Named({ devices }: { devices: readonly Device[] }) {
  const more = devices.length - NAMED_MAX;
  return (
    <>
      <List size="sm" spacing={4}>
        {devices.slice(0, NAMED_MAX).map((device) => (
          <List.Item key={device.id} className="name">
            <Called device={device} />
          </List.Item>
        ))}
        {more > 0 && <List.Item>{plural(more, { other: "and # more" })}</List.Item>}
      </List>
      <Text size="sm">
        <Trans>
          They may then open what only approved devices may. A device that enrols from now on still waits.
        </Trans>
      </Text>
    </>
  );
}

function Called({ device: { name, user: login, user_display_name } }: { device: Device }) {
  const user = calledBy(login, user_display_name);
  return (
    <Trans>
      {name} of {user}
    </Trans>
  );
}
