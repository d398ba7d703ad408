import { ActionIcon, Button, Menu, Stack, Text } from "@mantine/core";
import { IconDots, IconMailForward, IconPlus, IconTrash, IconUsers } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { useMayWrite } from "../session/session";
import { ListPage } from "../shared/ListPage";
import { PageSwitch } from "../shared/PageSwitch";
import { LastDenied } from "../shared/LastDenied";
import { TimeSince } from "../shared/TimeSince";
import type { Column } from "../shared/RowList";
import { merged } from "../shared/search";
import { PersonCreateDialog } from "./PersonCreateDialog";
import { PersonDeleteDialog } from "./PersonDeleteDialog";
import { InviteDialog } from "./InviteDialog";
import { peopleQuery, type Person } from "./queries";

type Doing = { what: "add" } | { what: "invite" | "delete"; name: string } | null;

export function PersonListPage() {
  const filter = useSearch({ from: "/frame/people" });
  const navigate = useNavigate({ from: "/people" });
  const mayWrite = useMayWrite("users");
  const mayInvite = useMayWrite("invitations");
  const [doing, setDoing] = useState<Doing>(null);
  const done = () => setDoing(null);
  const show = (change: typeof filter) => void navigate({ search: merged(filter, change), replace: true });
  return (
    <>
      <ListPage
        title="People"
        about="People with access; they enrol computers with an invitation."
        add={
          mayWrite && (
            <Button leftSection={<IconPlus size={16} />} onClick={() => setDoing({ what: "add" })}>
              Add a person
            </Button>
          )
        }
        before={<PageSwitch at="/people" pages={["/people", "/invitations"]} />}
        search={{ q: filter.q, onSearch: (q) => show({ q }), places: "in their name or e-mail address" }}
        options={peopleQuery(filter)}
        keyOf={({ name }) => name}
        sorting={{ by: filter.sort ?? "name", onSort: (sort) => show({ sort: sort as "name" | "-name" }) }}
        columns={[...COLUMNS, ...(mayWrite && mayInvite ? [doColumn(setDoing)] : [])]}
        empty={{
          icon: <IconUsers />,
          title: "No people yet",
          children: "Add a person, then send them an invitation: a link with which they enrol a computer.",
        }}
      />
      {doing?.what === "add" && (
        <PersonCreateDialog onClose={done} onAdded={(name) => setDoing({ what: "invite", name })} />
      )}
      {doing?.what === "invite" && <InviteDialog name={doing.name} onClose={done} />}
      {doing?.what === "delete" && <PersonDeleteDialog name={doing.name} onClose={done} />}
    </>
  );
}

const COLUMNS: Column<Person>[] = [
  {
    title: "Name",
    sort: "name",
    cell: ({ name, email }) => (
      <Stack gap={0}>
        <Text size="sm" fw={550} className="name">
          {name}
        </Text>
        <Text size="xs" c="dimmed" className="name">
          {email}
        </Text>
      </Stack>
    ),
  },
  { title: "Last seen", from: "sm", cell: ({ last_seen_at }) => <TimeSince at={last_seen_at} /> },
  { title: "Last denied", from: "sm", cell: ({ last_denied }) => <LastDenied denied={last_denied} /> },
  { title: "Devices", align: "right", cell: ({ devices }) => <Text size="sm">{devices}</Text> },
];

function doColumn(setDoing: (doing: Doing) => void): Column<Person> {
  return {
    title: "Actions",
    align: "right",
    cell: ({ name }) => (
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon variant="subtle" color="gray" aria-label={`Actions for ${name}`}>
            <IconDots size={18} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item
            leftSection={<IconMailForward size={16} />}
            onClick={() => setDoing({ what: "invite", name })}
          >
            Invite a computer
          </Menu.Item>
          <Menu.Item
            c="var(--mantine-color-error)"
            leftSection={<IconTrash size={16} />}
            onClick={() => setDoing({ what: "delete", name })}
          >
            Delete
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    ),
  };
}
