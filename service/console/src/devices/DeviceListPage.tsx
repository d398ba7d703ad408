import { i18n } from "@lingui/core";
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Button, Checkbox, CloseButton, Group, Select, Stack, Text } from "@mantine/core";
import { IconDeviceLaptop } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { useMayWrite } from "../session/session";
import { Name } from "../shared/Name";
import { AnchorLink } from "../shared/links";
import { LastDenied } from "../shared/LastDenied";
import { ListPage } from "../shared/ListPage";
import { PersonName } from "../shared/PersonName";
import type { Column } from "../shared/RowList";
import { merged } from "../shared/search";
import { TimeSince } from "../shared/TimeSince";
import { moment } from "../shared/words";
import { ApproveAll } from "./ApproveAll";
import { Approve, More, useApproval, type Doing } from "./DeviceActions";
import { DeviceAuthenticatorDialog } from "./DeviceAuthenticatorDialog";
import { DeviceRevokeDialog } from "./DeviceRevokeDialog";
import { SAID, StateBadge } from "./StateBadge";
import { devicesQuery, stateOf, STATES, waitingQuery, type Device } from "./queries";

export function DeviceListPage() {
  const filter = useSearch({ from: "/frame/devices" });
  const navigate = useNavigate({ from: "/devices" });
  const mayWrite = useMayWrite("devices");
  const [doing, setDoing] = useState<{ what: Doing; device: Device } | null>(null);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const done = () => setDoing(null);
  const show = (change: Partial<Record<keyof typeof filter, string | undefined>>) => {
    setChosen(new Set());
    void navigate({ search: merged(filter, change as typeof filter), replace: true });
  };
  const { state, q, user } = filter;
  const sought = { ...(q !== undefined && { q }), ...(user !== undefined && { user }) };
  const waiting = useQuery(waitingQuery(sought)).data?.rows ?? [];
  const someWait = waiting.length > 0;
  const approved = (ids: readonly string[]) => {
    setChosen(new Set());
    // With the last one approved, the list of those that wait would be empty, and not show what was done.
    if (state === "pending" && waiting.every(({ id }) => ids.includes(id))) show({ state: "" });
  };
  // A choice makes sense among devices with which the same can be done.
  const choosing = mayWrite && someWait && (state === undefined || state === "pending");
  return (
    <>
      <ListPage
        title={t`Devices`}
        about={t`Enrolled computers, with the facts that they report.`}
        search={{
          q: filter.q,
          onSearch: (q) => show({ q }),
          places: t`in its name or its person’s name`,
          isFiltered: filter.state !== undefined || filter.user !== undefined,
          onShowAll: () => void navigate({ search: {}, replace: true }),
        }}
        after={
          <>
            <Select
              aria-label={t`State`}
              placeholder={t`Any state`}
              clearable
              clearButtonProps={{ "aria-label": t`Any state` }}
              w={210}
              data={STATES.map((value) => ({ value, label: i18n._(SAID[value].label) }))}
              value={filter.state ?? null}
              onChange={(state) => show({ state: state ?? "" })}
            />
            {filter.user !== undefined && <Whose user={filter.user} onClear={() => show({ user: "" })} />}
            {choosing && <ApproveAll sought={sought} onDone={approved} />}
            {chosen.size > 0 && <ApproveChosen ids={chosen} onDone={approved} />}
          </>
        }
        options={devicesQuery(filter)}
        keyOf={({ id }) => id}
        sorting={{ by: filter.sort, onSort: (sort) => show({ sort: sort }) }}
        columns={[
          ...(choosing ? [choiceColumn(chosen, setChosen)] : []),
          ...columns(),
          {
            title: t`Actions`,
            align: "right",
            cell: (device) => (
              <Group gap="xs" justify="flex-end">
                {mayWrite && stateOf(device) === "pending" && <Approve device={device} onDone={approved} />}
                <More
                  device={device}
                  mayWrite={mayWrite}
                  onApproved={approved}
                  onDo={(what) => setDoing({ what, device })}
                />
              </Group>
            ),
          },
        ]}
        empty={{
          icon: <IconDeviceLaptop />,
          title: t`No devices yet`,
          children: t`Invite a person: the invitation link enrols a computer, which then appears here.`,
        }}
      />
      {doing?.what === "revoke" && <DeviceRevokeDialog device={doing.device} onClose={done} />}
      {doing?.what === "authenticator" && <DeviceAuthenticatorDialog device={doing.device} onClose={done} />}
    </>
  );
}

function Whose({ user, onClear }: { user: string; onClear: () => void }) {
  return (
    <Badge
      variant="default"
      size="lg"
      tt="none"
      rightSection={<CloseButton size="xs" aria-label={t`Devices of any person`} onClick={onClear} />}
    >
      <Trans>of {user}</Trans>
    </Badge>
  );
}

function ApproveChosen({
  ids,
  onDone,
}: {
  ids: ReadonlySet<string>;
  onDone: (ids: readonly string[]) => void;
}) {
  const approve = useApproval(onDone);
  return (
    <Button loading={approve.isPending} onClick={() => approve.mutate([...ids])}>
      {plural(ids.size, { one: "Approve # device", other: "Approve # devices" })}
    </Button>
  );
}

function choiceColumn(
  chosen: ReadonlySet<string>,
  onChoose: (chosen: ReadonlySet<string>) => void,
): Column<Device> {
  return {
    title: t`Choose`,
    head: (rows) => <ChooseAll ids={idsOfWaiting(rows)} chosen={chosen} onChoose={onChoose} />,
    cell: (device) => {
      const { id, name, user } = device;
      return (
        stateOf(device) === "pending" && (
          <Checkbox
            aria-label={t`Choose ${name} of ${user}`}
            checked={chosen.has(id)}
            onChange={({ currentTarget: { checked } }) => {
              const rest = [...chosen].filter((one) => one !== id);
              onChoose(new Set(checked ? [...rest, id] : rest));
            }}
          />
        )
      );
    },
  };
}

const idsOfWaiting = (rows: readonly Device[]): string[] =>
  rows.filter((device) => stateOf(device) === "pending").map(({ id }) => id);

/** `ids`: of the loaded devices that wait. */
function ChooseAll({
  ids,
  chosen,
  onChoose,
}: {
  ids: readonly string[];
  chosen: ReadonlySet<string>;
  onChoose: (chosen: ReadonlySet<string>) => void;
}) {
  const number = ids.filter((id) => chosen.has(id)).length;
  return (
    <Checkbox
      aria-label={t`Choose each shown device that waits`}
      disabled={ids.length === 0}
      checked={ids.length > 0 && number === ids.length}
      indeterminate={number > 0 && number < ids.length}
      onChange={() => onChoose(new Set(number === ids.length ? [] : ids))}
    />
  );
}

const columns = (): Column<Device>[] => [
  {
    title: t`Device`,
    sort: "name",
    cell: ({ name, user, user_display_name, posture, client_version }) => (
      <Stack gap={0}>
        <Text size="sm" fw={600} className="name">
          <Name>{name}</Name>
        </Text>
        <Text size="xs" className="name">
          <AnchorLink to="/people/of/$name" params={{ name: user }} inherit>
            <PersonName user={user} displayName={user_display_name} />
          </AnchorLink>
        </Text>
        <Text size="xs" c="dimmed" className="name">
          {[
            [posture["os_id"] ?? posture["os"], posture["os_version"]].filter(Boolean).join(" "),
            client_version && `Culvert ${client_version}`,
          ]
            .filter(Boolean)
            .join(" · ")}
        </Text>
      </Stack>
    ),
  },
  {
    title: t`State`,
    sort: "state",
    cell: (device) => (
      <Stack gap={2} align="flex-start">
        <StateBadge device={device} />
        {stateOf(device) === "pending" && (
          <Text size="xs" c="dimmed" maw={200}>
            <Trans>Opens only what needs no approval</Trans>
          </Text>
        )}
      </Stack>
    ),
  },
  {
    title: t`Last seen`,
    sort: "last_seen",
    from: "sm",
    cell: ({ online, last_seen_at, last_seen_address }) => (
      <Stack gap={0}>
        {online ? (
          <Text size="sm" c="var(--mantine-color-culvert-light-color)">
            <Trans>online</Trans>
          </Text>
        ) : (
          <TimeSince at={last_seen_at} />
        )}
        <Text size="xs" c="dimmed" className="mono">
          {last_seen_address}
        </Text>
      </Stack>
    ),
  },
  {
    title: t`Last denied`,
    sort: "last_denied",
    from: "md",
    cell: ({ last_denied }) => <LastDenied denied={last_denied} />,
  },
  {
    title: t`Code`,
    sort: "code",
    from: "md",
    cell: ({ code_valid_until }) => {
      const until = code_valid_until === null ? null : moment(code_valid_until);
      return <Text size="sm">{until === null ? t`none yet` : t`until ${until}`}</Text>;
    },
  },
];
