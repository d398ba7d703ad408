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
import { PageSwitch } from "../shared/PageSwitch";
import { TimeSince } from "../shared/TimeSince";
import type { Column } from "../shared/RowList";
import { moment } from "../shared/words";
import { invitationsQuery, type Invitation } from "./queries";

export function InvitationListPage() {
  const filter = useSearch({ from: "/frame/invitations" });
  const navigate = useNavigate({ from: "/invitations" });
  const mayWithdraw = useMayWrite("invitations");
  const [withdrawing, setWithdrawing] = useState<Invitation | null>(null);
  return (
    <>
      <ListPage
        title="Invitations"
        about="Links that have been sent and not used yet."
        before={<PageSwitch at="/invitations" pages={["/people", "/invitations"]} />}
        search={{
          q: filter.q,
          onSearch: (q) => void navigate({ search: q === "" ? {} : { q }, replace: true }),
          places: "in the name of its person or sender",
        }}
        options={invitationsQuery(filter)}
        keyOf={({ id }) => String(id)}
        columns={[...COLUMNS, ...(mayWithdraw ? [withdrawColumn(setWithdrawing)] : [])]}
        empty={{
          icon: <IconMailForward />,
          title: "No open invitations",
          children: "All invitations have been used, withdrawn or have expired.",
        }}
      />
      {withdrawing && <Withdraw invitation={withdrawing} onClose={() => setWithdrawing(null)} />}
    </>
  );
}

const COLUMNS: Column<Invitation>[] = [
  {
    title: "For",
    cell: ({ user }) => (
      <Text size="sm" fw={550} className="name">
        {user}
      </Text>
    ),
  },
  {
    title: "Sent by",
    cell: ({ invited_by }) => (
      <Text size="sm" className="name">
        {invited_by ?? "unknown"}
      </Text>
    ),
  },
  { title: "Sent", from: "sm", cell: ({ created_at }) => <TimeSince at={created_at} /> },
  {
    title: "Valid until",
    cell: ({ expires_at }) => <Text size="sm">{moment(expires_at)}</Text>,
  },
];

function withdrawColumn(onWithdraw: (invitation: Invitation) => void): Column<Invitation> {
  return {
    title: "Actions",
    align: "right",
    cell: (invitation) => (
      <Button
        size="compact-sm"
        variant="default"
        aria-label={`Withdraw the invitation of ${invitation.user}`}
        onClick={() => onWithdraw(invitation)}
      >
        Withdraw
      </Button>
    ),
  };
}

function Withdraw({ invitation: { id, user }, onClose }: { invitation: Invitation; onClose: () => void }) {
  const queries = useQueryClient();
  const withdraw = useMutation({
    mutationFn: () => api.DELETE("/api/v1/invitations/{number}", { params: { path: { number: id } } }),
    onSuccess: async () => {
      notifications.show({ message: `The invitation of ${user} is withdrawn` });
      await queries.invalidateQueries({ queryKey: ["invitations"] });
      onClose();
    },
  });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Withdraw the invitation of ${user}?`}
      act="Withdraw"
      mutation={withdraw}
    >
      <Text size="sm">Its link no longer enrols a computer. A computer that has used it stays enrolled.</Text>
    </ConfirmDialog>
  );
}
