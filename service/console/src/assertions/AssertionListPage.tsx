import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Button, Text } from "@mantine/core";
import { IconPlus, IconShieldCheck } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { api } from "../api/client";
import { useMayWrite } from "../session/session";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import type { Assertion } from "../shared/Effect";
import { ListPage } from "../shared/ListPage";
import { Name } from "../shared/Name";
import { PageSwitch, POLICY_PAGES } from "../shared/PageSwitch";
import type { Column } from "../shared/RowList";
import { merged, sorted } from "../shared/search";
import { offerUndo } from "../shared/undo";
import { saidOf } from "../shared/words";
import { AssertionCreateDialog } from "./AssertionCreateDialog";
import { assertionsQuery, type AssertionOrder } from "./queries";

export function AssertionListPage() {
  const { dialog, ...asked } = useSearch({ from: "/frame/assertions" });
  const filter = sorted(asked, "assertion");
  const navigate = useNavigate({ from: "/assertions" });
  const mayWrite = useMayWrite("assertions");
  const show = (change: Partial<typeof filter> & { dialog?: "add" | undefined }) =>
    void navigate({ search: (before) => merged(before, change), replace: true });
  const [deleting, setDeleting] = useState<Assertion | null>(null);
  const columns: Column<Assertion>[] = [
    ...COLUMNS,
    ...(mayWrite
      ? [
          {
            title: t`Actions`,
            align: "right" as const,
            cell: (assertion: Assertion) => {
              const said = saidOf(assertion);
              return (
                <Button
                  size="compact-sm"
                  variant="subtle"
                  color="red"
                  aria-label={t`Delete: ${said}`}
                  onClick={() => setDeleting(assertion)}
                >
                  <Trans>Delete</Trans>
                </Button>
              );
            },
          },
        ]
      : []),
  ];
  return (
    <>
      <ListPage
        title={t`Assertions`}
        about={t`A change of policies, groups, people or resources is refused if an assertion would not hold any more.`}
        add={
          mayWrite && (
            <Button leftSection={<IconPlus size={16} />} onClick={() => show({ dialog: "add" })}>
              <Trans>Add an assertion</Trans>
            </Button>
          )
        }
        before={<PageSwitch at="/assertions" pages={POLICY_PAGES} />}
        search={{ q: filter.q, onSearch: (q) => show({ q }), places: t`in its words` }}
        options={assertionsQuery(filter)}
        sorting={{ by: filter.sort, onSort: (sort) => show({ sort: sort as AssertionOrder }) }}
        keyOf={({ id }) => String(id)}
        columns={columns}
        empty={{
          icon: <IconShieldCheck />,
          title: t`No assertions yet`,
          children: t`Write down what must stay true, such as: no member of contractors can reach payroll.corp.example.`,
        }}
      />
      {dialog === "add" && mayWrite && <AssertionCreateDialog onClose={() => show({ dialog: undefined })} />}
      {deleting && <Delete assertion={deleting} onClose={() => setDeleting(null)} />}
    </>
  );
}

const COLUMNS: Column<Assertion>[] = [
  {
    title: msg`Assertion`,
    sort: "assertion",
    cell: (assertion) => (
      <Text size="sm" fw={600} className="name">
        <Name>{saidOf(assertion)}</Name>
      </Text>
    ),
  },
  {
    title: msg`State`,
    sort: "state",
    cell: ({ holds }) => (
      <Badge variant="light" tt="none" color={holds ? "culvert" : "red"}>
        {holds ? t`holds` : t`does not hold`}
      </Badge>
    ),
  },
];

function Delete({ assertion, onClose }: { assertion: Assertion; onClose: () => void }) {
  const queries = useQueryClient();
  const { id, user, group, name, reaches } = assertion;
  const mutation = useMutation({
    mutationFn: () => api.DELETE("/api/v1/assertions/{number}", { params: { path: { number: id } } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["assertions"] });
      offerUndo(t`The assertion is deleted`, t`The assertion is there again`, async () => {
        await api.POST("/api/v1/assertions", { body: { user, group, name, reaches } });
        await queries.invalidateQueries({ queryKey: ["assertions"] });
      });
      onClose();
    },
  });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={t`Delete this assertion?`}
      act={t`Delete the assertion`}
      mutation={mutation}
    >
      <Text size="sm" fw={600} className="name">
        {saidOf(assertion)}
      </Text>
      <Text size="sm">
        <Trans>
          Changes that make this untrue are not refused any more. Nobody gains or loses access now.
        </Trans>
      </Text>
    </ConfirmDialog>
  );
}
