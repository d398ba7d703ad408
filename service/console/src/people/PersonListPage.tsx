import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Stack, Text } from "@mantine/core";
import { IconMailForward, IconPlus, IconUsers } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { useMayWrite } from "../session/session";
import { Name } from "../shared/Name";
import { AnchorLink } from "../shared/links";
import { ListPage } from "../shared/ListPage";
import { PEOPLE_PAGES, PageSwitch } from "../shared/PageSwitch";
import { LastDenied } from "../shared/LastDenied";
import { PersonName } from "../shared/PersonName";
import { TimeSince } from "../shared/TimeSince";
import type { Column } from "../shared/RowList";
import { merged, sorted } from "../shared/search";
import { PersonCreateDialog } from "./PersonCreateDialog";
import { InviteDialog, type Invitation } from "./InviteDialog";
import { peopleQuery, type Person, type PersonOrder } from "./queries";

type Inviting = { name: string; made?: Invitation | null } | null;

export function PersonListPage() {
  const { dialog, ...asked } = useSearch({ from: "/frame/people" });
  const filter = sorted(asked, "display_name");
  const navigate = useNavigate({ from: "/people" });
  const mayWrite = useMayWrite("users");
  const mayInvite = useMayWrite("invitations");
  const [inviting, setInviting] = useState<Inviting>(null);
  const show = (change: Partial<typeof filter> & { dialog?: "add" | undefined }) =>
    void navigate({ search: (before) => merged(before, change), replace: true });
  const add = () => show({ dialog: "add" });
  const added = () => show({ dialog: undefined });
  return (
    <>
      <ListPage
        title={t`People`}
        about={t`People with access; they enrol computers with an invitation.`}
        add={
          mayWrite && (
            <Button leftSection={<IconPlus size={16} />} onClick={add}>
              <Trans>Add a person</Trans>
            </Button>
          )
        }
        before={<PageSwitch at="/people" pages={PEOPLE_PAGES} />}
        search={{ q: filter.q, onSearch: (q) => show({ q }), places: t`in their name or e-mail address` }}
        options={peopleQuery(filter)}
        keyOf={({ name }) => name}
        sorting={{ by: filter.sort, onSort: (sort) => show({ sort: sort as PersonOrder }) }}
        columns={[...columns(), ...(mayInvite ? [inviteColumn(setInviting)] : [])]}
        empty={{
          icon: <IconUsers />,
          title: t`No people yet`,
          children: t`Add a person, then send them an invitation: a link with which they enrol a computer.`,
        }}
      />
      {dialog === "add" && mayWrite && (
        <PersonCreateDialog
          mayInvite={mayInvite}
          onClose={added}
          onAdded={(name, made) => {
            if (mayInvite) setInviting({ name, made });
            added();
          }}
        />
      )}
      {inviting && (
        <InviteDialog name={inviting.name} made={inviting.made ?? null} onClose={() => setInviting(null)} />
      )}
    </>
  );
}

const columns = (): Column<Person>[] => [
  {
    title: t`Name`,
    sort: "display_name",
    cell: ({ name, display_name, email }) => (
      <Stack gap={0}>
        <AnchorLink to="/people/of/$name" params={{ name }} size="sm" fw={600} className="name">
          <PersonName user={name} displayName={display_name} />
        </AnchorLink>
        <Text size="xs" c="dimmed" className="name">
          <Name>{email}</Name>
        </Text>
      </Stack>
    ),
  },
  {
    title: t`Last seen`,
    sort: "last_seen",
    from: "sm",
    cell: ({ last_seen_at }) => <TimeSince at={last_seen_at} />,
  },
  {
    title: t`Last denied`,
    sort: "last_denied",
    from: "sm",
    cell: ({ last_denied }) => <LastDenied denied={last_denied} />,
  },
  {
    title: t`Devices`,
    sort: "devices",
    align: "right",
    cell: ({ devices }) => <Text size="sm">{devices}</Text>,
  },
];

function inviteColumn(onInvite: (inviting: Inviting) => void): Column<Person> {
  return {
    title: t`Actions`,
    align: "right",
    from: "sm",
    cell: ({ name }) => (
      <Button
        size="compact-sm"
        variant="default"
        leftSection={<IconMailForward size={14} />}
        aria-label={t`Invite a computer of ${name}`}
        onClick={() => onInvite({ name })}
      >
        <Trans>Invite</Trans>
      </Button>
    ),
  };
}
