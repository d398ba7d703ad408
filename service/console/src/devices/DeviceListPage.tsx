import { ActionIcon, Badge, Button, Group, List, Menu, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconDeviceLaptop, IconDots, IconHistory, IconQrcode } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { api, body } from "../api/client";
import { useTunnelsBy } from "../live/live";
import { useMayWrite } from "../session/session";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { LastDenied } from "../shared/LastDenied";
import { TimeSince } from "../shared/TimeSince";
import { ListPage } from "../shared/ListPage";
import { notifyProblem } from "../shared/ProblemNote";
import type { Column } from "../shared/RowList";
import { merged } from "../shared/search";
import { closes, counted, moment } from "../shared/words";
import { DeviceAuthenticatorDialog } from "./DeviceAuthenticatorDialog";
import { devicesQuery, type Device, type DeviceOrder } from "./queries";

type Doing = "revoke" | "authenticator";

const COLOURS = { pending: "yellow", approved: "culvert", revoked: "gray" };

export function DeviceListPage() {
  const filter = useSearch({ from: "/frame/devices" });
  const navigate = useNavigate({ from: "/devices" });
  const mayWrite = useMayWrite("devices");
  const [doing, setDoing] = useState<{ what: Doing; device: Device } | null>(null);
  const done = () => setDoing(null);
  const show = (change: typeof filter) => void navigate({ search: merged(filter, change), replace: true });
  return (
    <>
      <ListPage
        title="Devices"
        about="Enrolled computers, with the facts that they report."
        search={{ q: filter.q, onSearch: (q) => show({ q }), places: "in its name or its person’s name" }}
        options={devicesQuery(filter)}
        keyOf={({ id }) => id}
        sorting={{ by: filter.sort, onSort: (sort) => show({ sort: sort as DeviceOrder }) }}
        columns={[...COLUMNS, doColumn(mayWrite, (what, device) => setDoing({ what, device }))]}
        empty={{
          icon: <IconDeviceLaptop />,
          title: "No devices yet",
          children: "Invite a person: the invitation link enrols a computer, which then appears here.",
        }}
      />
      {doing?.what === "revoke" && <Revoke device={doing.device} onClose={done} />}
      {doing?.what === "authenticator" && <DeviceAuthenticatorDialog device={doing.device} onClose={done} />}
    </>
  );
}

const COLUMNS: Column<Device>[] = [
  {
    title: "Device",
    sort: "name",
    cell: ({ name, user, posture, client_version }) => (
      <Stack gap={0}>
        <Text size="sm" fw={550} className="name">
          {name}
        </Text>
        <Text size="xs" c="dimmed" className="name">
          {[
            user,
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
    title: "State",
    cell: ({ state }) => (
      <Badge variant="light" color={COLOURS[state]} tt="none">
        {state}
      </Badge>
    ),
  },
  {
    title: "Last seen",
    sort: "last_seen",
    from: "sm",
    cell: ({ online, last_seen_at, last_seen_address }) => (
      <Stack gap={0}>
        {online ? (
          <Text size="sm" c="var(--mantine-color-culvert-light-color)">
            online
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
  { title: "Last denied", from: "sm", cell: ({ last_denied }) => <LastDenied denied={last_denied} /> },
  {
    title: "Code",
    from: "sm",
    cell: ({ code_valid_until }) => (
      <Text size="sm">{code_valid_until === null ? "none yet" : `until ${moment(code_valid_until)}`}</Text>
    ),
  },
];

function doColumn(mayWrite: boolean, onDo: (what: Doing, device: Device) => void): Column<Device> {
  return {
    title: "Actions",
    align: "right",
    cell: (device) => (
      <Group gap="xs" justify="flex-end">
        {mayWrite && device.state === "pending" && <Approve device={device} />}
        {mayWrite && device.state !== "revoked" && (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`Revoke ${device.name} of ${device.user}`}
            onClick={() => onDo("revoke", device)}
          >
            Revoke
          </Button>
        )}
        <More device={device} mayWrite={mayWrite} onDo={onDo} />
      </Group>
    ),
  };
}

function More({
  device,
  mayWrite,
  onDo,
}: {
  device: Device;
  mayWrite: boolean;
  onDo: (what: Doing, device: Device) => void;
}) {
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={`More about ${device.name} of ${device.user}`}>
          <IconDots size={18} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item
          leftSection={<IconHistory size={16} />}
          renderRoot={(props) => <Link {...props} to="/activity" search={{ actor: device.id }} />}
        >
          Its activity
        </Menu.Item>
        {mayWrite && device.state !== "revoked" && (
          <Menu.Item leftSection={<IconQrcode size={16} />} onClick={() => onDo("authenticator", device)}>
            Make a new authenticator
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

function Approve({ device: { id, name, user } }: { device: Device }) {
  const queries = useQueryClient();
  const approve = useMutation({
    mutationFn: async () =>
      api.POST("/api/v1/devices/{device_id}/approve", { params: { path: { device_id: id } } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["devices"] }),
    onError: notifyProblem,
  });
  return (
    <Button
      size="compact-sm"
      aria-label={`Approve ${name} of ${user}`}
      loading={approve.isPending}
      onClick={() => approve.mutate()}
    >
      Approve
    </Button>
  );
}

function Revoke({ device: { id, name, user }, onClose }: { device: Device; onClose: () => void }) {
  const queries = useQueryClient();
  const open = useTunnelsBy("device_id").get(id)?.length ?? 0;
  const revoke = useMutation({
    mutationFn: async () =>
      body(await api.POST("/api/v1/devices/{device_id}/revoke", { params: { path: { device_id: id } } })),
    onSuccess: async ({ tunnels_closed }) => {
      notifications.show({ message: `${name} is revoked, ${counted(tunnels_closed, "tunnel")} closed` });
      await queries.invalidateQueries({ queryKey: ["devices"] });
      onClose();
    },
  });
  return (
    <ConfirmDialog onClose={onClose} title={`Revoke ${name} of ${user}?`} act="Revoke" mutation={revoke}>
      <List size="sm" spacing={4}>
        <List.Item>{closes(open)}</List.Item>
        <List.Item>The computer loses access until it enrols again with a new invitation</List.Item>
      </List>
    </ConfirmDialog>
  );
}
