import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconMailForward } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { api } from "../api/client";
import { useMayWrite } from "../session/session";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { ListPage } from "../shared/ListPage";
import { Name } from "../shared/Name";
import { calledBy, PersonName } from "../shared/PersonName";
import { PEOPLE_PAGES, PageSwitch } from "../shared/PageSwitch";
import { TimeSince } from "../shared/TimeSince";
import type { Column } from "../shared/RowList";
import { merged, sorted } from "../shared/search";
import { moment } from "../shared/words";
import { InvitePersonDialog } from "./InvitePersonDialog";
import { invitationsQuery, type Invitation, type InvitationOrder } from "./queries";

export function InvitationListPage() {
  const { dialog, ...asked } = useSearch({ from: "/frame/invitations" });
  const filter = sorted(asked, "created");
  const navigate = useNavigate({ from: "/invitations" });
  const mayWrite = useMayWrite("invitations");
  const show = (change: Partial<typeof filter> & { dialog?: "invite" | undefined }) =>
    void navigate({ search: (before) => merged(before, change), replace: true });
  const [withdrawing, setWithdrawing] = useState<Invitation | null>(null);
  return (
    <>
      <ListPage
        title={t`Invitations`}
        about={t`Links that have been made and not used yet.`}
        add={
          mayWrite && (
            <Button leftSection={<IconMailForward size={16} />} onClick={() => show({ dialog: "invite" })}>
              <Trans>Invite a person</Trans>
            </Button>
          )
        }
        before={<PageSwitch at="/invitations" pages={PEOPLE_PAGES} />}
        search={{
          q: filter.q,
          onSearch: (q) => show({ q }),
          places: t`in the name of its person or sender`,
        }}
        options={invitationsQuery(filter)}
        keyOf={({ id }) => String(id)}
        sorting={{ by: filter.sort, onSort: (sort) => show({ sort: sort as InvitationOrder }) }}
        columns={[...columns(), ...(mayWrite ? [withdrawColumn(setWithdrawing)] : [])]}
        empty={{
          icon: <IconMailForward />,
          title: t`No open invitations`,
          children: t`All invitations have been used, withdrawn or have expired.`,
        }}
      />
      {dialog === "invite" && mayWrite && <InvitePersonDialog onClose={() => show({ dialog: undefined })} />}
      {withdrawing && <Withdraw invitation={withdrawing} onClose={() => setWithdrawing(null)} />}
    </>
  );
}

const columns = (): Column<Invitation>[] => [
  {
    title: t`For`,
    sort: "user",
    cell: ({ user, user_display_name }) => (
      <Text size="sm" fw={600} className="name">
        <PersonName user={user} displayName={user_display_name} />
      </Text>
    ),
  },
  {
    title: t`Sent by`,
    sort: "invited_by",
    from: "sm",
    cell: ({ invited_by }) => (
      <Text size="sm" className="name">
        <Name>{invited_by ?? t`unknown`}</Name>
      </Text>
    ),
  },
  { title: t`Sent`, sort: "created", from: "sm", cell: ({ created_at }) => <TimeSince at={created_at} /> },
  {
    title: t`Valid until`,
    sort: "expires",
    cell: ({ expires_at }) => <Text size="sm">{moment(expires_at)}</Text>,
  },
];

function withdrawColumn(onWithdraw: (invitation: Invitation) => void): Column<Invitation> {
  return {
    title: t`Actions`,
    align: "right",
    cell: (invitation) => {
      const { user } = invitation;
      return (
        <Button
          size="compact-sm"
          variant="default"
          aria-label={t`Withdraw the invitation of ${user}`}
          onClick={() => onWithdraw(invitation)}
        >
          <Trans>Withdraw</Trans>
        </Button>
      );
    },
  };
}

function Withdraw({ invitation, onClose }: { invitation: Invitation; onClose: () => void }) {
  const { id } = invitation;
  const user = calledBy(invitation.user, invitation.user_display_name);
  const queries = useQueryClient();
  const withdraw = useMutation({
    mutationFn: () => api.DELETE("/api/v1/invitations/{number}", { params: { path: { number: id } } }),
    onSuccess: async () => {
      notifications.show({ message: t`The invitation of ${user} is withdrawn` });
      await queries.invalidateQueries({ queryKey: ["invitations"] });
      onClose();
    },
  });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={t`Withdraw the invitation of ${user}?`}
      act={t`Withdraw the invitation`}
      mutation={withdraw}
    >
      <Text size="sm">
        <Trans>Its link no longer enrols a computer. A computer that has used it stays enrolled.</Trans>
      </Text>
    </ConfirmDialog>
  );
}
