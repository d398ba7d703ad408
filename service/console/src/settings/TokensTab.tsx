import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, MultiSelect, NumberInput, Stack, Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconKey } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { TOKEN_DAYS_MAX } from "../api/contract";
import { api, body } from "../api/client";
import { useMayWrite } from "../session/session";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { Dialog } from "../shared/Dialog";
import { EmptyList, NoMatch } from "../shared/EmptyList";
import { FormDialog } from "../shared/FormDialog";
import { Name } from "../shared/Name";
import { RowList, type Column } from "../shared/RowList";
import { SearchField } from "../shared/SearchField";
import { SettingsCard } from "./SettingsCard";
import { scopesQuery, tokensQuery, useDialog, useTokenFilter, type Token } from "./queries";
import { SecretPanel } from "../shared/SecretPanel";
import { day } from "../shared/words";

const NEW: { name: string; scopes: string[]; days: number } = { name: "", scopes: [], days: 90 };

export function TokensTab() {
  const mayWrite = useMayWrite("tokens");
  const { filter, onSearch, sorting } = useTokenFilter();
  const kind = t`API tokens`;
  const [dialog, setDialog] = useDialog();
  const [revoking, setRevoking] = useState<Token | null>(null);
  const add = mayWrite && (
    <Button onClick={() => setDialog("add")}>
      <Trans>Make a token</Trans>
    </Button>
  );
  const columns: Column<Token>[] = [
    ...COLUMNS,
    ...(mayWrite
      ? [
          {
            title: t`Actions`,
            align: "right" as const,
            cell: (token: Token) => (
              <Button
                size="compact-sm"
                variant="subtle"
                color="red"
                aria-label={t`Revoke ${token.name}`}
                onClick={() => setRevoking(token)}
              >
                <Trans>Revoke</Trans>
              </Button>
            ),
          },
        ]
      : []),
  ];
  return (
    <SettingsCard
      isList
      title={t`API tokens`}
      about={t`For programs that call the REST API. A token can do what its scopes permit; it can never manage administrators or tokens.`}
      action={add}
    >
      <Stack>
        <SearchField label={t`Search ${kind}`} value={filter.q ?? ""} onSearch={onSearch} />
        <RowList
          label={t`API tokens`}
          options={tokensQuery(filter)}
          sorting={sorting}
          keyOf={({ id }) => id}
          columns={columns}
          empty={
            filter.q === undefined ? (
              <EmptyList icon={<IconKey />} title={t`No tokens`}>
                <Trans>
                  Make one for each program, such as a backup or Prometheus, with the scopes that it needs.
                </Trans>
              </EmptyList>
            ) : (
              <NoMatch kind={kind} places={t`in its name, scopes or maker`} onShowAll={() => onSearch("")} />
            )
          }
        />
      </Stack>
      {dialog === "add" && mayWrite && <TokenCreateDialog onClose={() => setDialog(undefined)} />}
      {revoking && <Revoke token={revoking} onClose={() => setRevoking(null)} />}
    </SettingsCard>
  );
}

const COLUMNS: Column<Token>[] = [
  {
    title: msg`Name`,
    sort: "name",
    cell: ({ name, created_by }) => (
      <>
        <Text size="sm" fw={600} className="name">
          <Name>{name}</Name>
        </Text>
        <Text size="xs" c="dimmed" className="name">
          <Name>{t`by ${created_by}`}</Name>
        </Text>
      </>
    ),
  },
  {
    title: msg`Scopes`,
    cell: ({ scopes }) => (
      <Text size="sm" className="mono">
        {scopes.join(", ")}
      </Text>
    ),
  },
  {
    title: msg`Ends`,
    sort: "expires",
    from: "sm",
    cell: ({ expires_at }) => <Text size="sm">{day(expires_at)}</Text>,
  },
];

function TokenCreateDialog({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const scopes = useQuery(scopesQuery);
  const make = useMutation({
    mutationFn: async (form: typeof NEW) => body(await api.POST("/api/v1/tokens", { body: form })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["tokens", "list"] }),
  });
  if (make.data)
    return (
      <Dialog opened onClose={onClose} title={t`The token ${make.data.name}`}>
        <SecretPanel
          label={t`Token`}
          value={make.data.token}
          about={t`Send it as “Authorization: Bearer …”.`}
          onClose={onClose}
        />
      </Dialog>
    );
  return (
    <FormDialog
      title={t`Make a token`}
      act={t`Make the token`}
      initial={NEW}
      mutation={make}
      onClose={onClose}
    >
      {(form) => (
        <>
          <TextInput
            label={t`Name`}
            description={t`Lower-case letters, digits, dots and hyphens`}
            placeholder="prometheus"
            required
            data-autofocus
            {...form.getInputProps("name")}
          />
          <MultiSelect
            label={t`Scopes`}
            description={t`“read” and “write” apply to every area; “write” includes “read”`}
            placeholder={form.values.scopes.length > 0 ? "" : "metrics:read"}
            data={scopes.data ?? []}
            searchable
            withAsterisk
            {...form.getInputProps("scopes")}
          />
          <NumberInput
            label={t`Days`}
            min={1}
            max={TOKEN_DAYS_MAX}
            required
            {...form.getInputProps("days")}
          />
        </>
      )}
    </FormDialog>
  );
}

function Revoke({ token: { id, name }, onClose }: { token: Token; onClose: () => void }) {
  const queries = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => api.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: id } } }),
    onSuccess: async () => {
      notifications.show({ message: t`${name} is revoked` });
      await queries.invalidateQueries({ queryKey: ["tokens", "list"] });
      onClose();
    },
  });
  return (
    <ConfirmDialog onClose={onClose} title={t`Revoke ${name}?`} act={t`Revoke ${name}`} mutation={revoke}>
      <Text size="sm">
        <Trans>Programs that use it are denied from their next request. This cannot be undone.</Trans>
      </Text>
    </ConfirmDialog>
  );
}
