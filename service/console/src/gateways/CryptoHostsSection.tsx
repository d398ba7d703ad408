import { msg, plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Button, Group, NumberInput, Stack, Text, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, body, type Schemas } from "../api/client";
import { useMayWrite } from "../session/session";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { FormDialog } from "../shared/FormDialog";
import { Loading } from "../shared/Loading";
import { Name } from "../shared/Name";
import { notifyProblem, ProblemNote } from "../shared/ProblemNote";
import { LiveList, type Column } from "../shared/RowList";
import { BundleDialog } from "./BundleDialog";

type CryptoHost = Schemas["CryptoHostOut"];

const EVERY_MS = 2000;
const BLANK = { name: "", p4runtime: "", port: 4, mac: "", host_port: 1, host_mac: "" };

const hostsQuery = (gateway: string) =>
  queryOptions({
    queryKey: ["gateways", "crypto-hosts", gateway],
    queryFn: async () =>
      body(await api.GET("/api/v1/gateways/{gateway}/crypto-hosts", { params: { path: { gateway } } })),
    refetchInterval: EVERY_MS,
  });

/** The computers that open and seal ESP for a gateway. */
export function CryptoHostsSection({ gateway, hasEngine }: { gateway: string; hasEngine: boolean }) {
  const hosts = useQuery(hostsQuery(gateway));
  const mayWrite = useMayWrite("gateways");
  const [adding, setAdding] = useState(false);
  if (hosts.isError) return <ProblemNote error={hosts.error} />;
  if (hosts.isPending) return <Loading forWhat={t`the crypto hosts`} />;
  return (
    <section aria-label={t`Crypto hosts`}>
      <Group justify="space-between" mb="xs">
        <Text fw={600}>
          {plural(hosts.data.length, { 0: "No crypto host", one: "# crypto host", other: "# crypto hosts" })}
        </Text>
        {mayWrite && (
          <Button
            variant="subtle"
            size="compact-sm"
            leftSection={<IconPlus size={14} />}
            onClick={() => setAdding(true)}
          >
            <Trans>Add a crypto host</Trans>
          </Button>
        )}
      </Group>
      {hosts.data.length === 0 ? (
        <Text size="sm" c="dimmed" className="measure">
          {hasEngine ? (
            <Trans>
              The gateway encrypts by itself. Computers behind its ports can do that in its place.
            </Trans>
          ) : (
            <Trans>This switch cannot encrypt by itself: no tunnel opens until it has a crypto host.</Trans>
          )}
        </Text>
      ) : (
        <LiveList
          label={t`Crypto hosts`}
          rows={hosts.data}
          keyOf={({ name }) => name}
          columns={mayWrite ? [...COLUMNS, actionsOf(gateway)] : COLUMNS}
        />
      )}
      {adding && <AddDialog gateway={gateway} onClose={() => setAdding(false)} />}
    </section>
  );
}

const COLUMNS: readonly Column<CryptoHost>[] = [
  { title: msg`Name`, cell: ({ name }) => <Name>{name}</Name> },
  { title: msg`State`, cell: (host) => <State host={host} /> },
  { title: msg`Port`, cell: ({ port }) => port, align: "right", from: "sm" },
  { title: msg`SAs`, cell: ({ sas }) => sas, align: "right" },
];

function State({ host: { state, reason, draining_since, sas } }: { host: CryptoHost }) {
  if (state === "offline")
    return (
      <>
        <Badge variant="light" color="red" tt="none">
          <Trans>offline</Trans>
        </Badge>
        <Text size="xs">{reason}</Text>
      </>
    );
  if (draining_since !== null)
    return (
      <Badge variant="light" color="yellow" tt="none">
        {sas === 0 ? t`drained` : t`draining`}
      </Badge>
    );
  return (
    <Badge variant="light" color={state === "online" ? "culvert" : "gray"} tt="none">
      {state === "online" ? t`online` : t`another controller’s`}
    </Badge>
  );
}

const actionsOf = (gateway: string): Column<CryptoHost> => ({
  title: msg`Actions`,
  head: () => null,
  align: "right",
  cell: (host) => <Actions gateway={gateway} host={host} />,
});

function Actions({ gateway, host }: { gateway: string; host: CryptoHost }) {
  const queries = useQueryClient();
  const [bundling, setBundling] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const at = { params: { path: { gateway, name: host.name } } };
  const again = () => queries.invalidateQueries(hostsQuery(gateway));
  const drain = useMutation({
    mutationFn: async () =>
      host.draining_since === null
        ? api.POST("/api/v1/gateways/{gateway}/crypto-hosts/{name}/drain", at)
        : api.POST("/api/v1/gateways/{gateway}/crypto-hosts/{name}/undrain", at),
    onSuccess: again,
    onError: notifyProblem,
  });
  const remove = useMutation({
    mutationFn: async () => api.DELETE("/api/v1/gateways/{gateway}/crypto-hosts/{name}", at),
    onSuccess: async () => {
      setDeleting(false);
      await again();
    },
  });
  return (
    <Group gap="xs" justify="flex-end">
      <Button
        size="compact-sm"
        variant="default"
        onClick={() => setBundling(true)}
        aria-label={t`Make a bundle of ${host.name}`}
      >
        <Trans>Make a bundle</Trans>
      </Button>
      <Button
        size="compact-sm"
        variant="default"
        onClick={() => drain.mutate()}
        loading={drain.isPending}
        aria-label={host.draining_since === null ? t`Drain ${host.name}` : t`Use it again: ${host.name}`}
      >
        {host.draining_since === null ? t`Drain` : t`Use it again`}
      </Button>
      <Button
        size="compact-sm"
        variant="default"
        disabled={host.sas > 0}
        onClick={() => setDeleting(true)}
        aria-label={t`Delete ${host.name}`}
      >
        <Trans>Delete</Trans>
      </Button>
      {bundling && (
        <BundleDialog name={host.name} cryptoHostOf={gateway} onClose={() => setBundling(false)} />
      )}
      {deleting && (
        <ConfirmDialog
          title={t`Delete ${host.name}?`}
          act={t`Delete ${host.name}`}
          mutation={remove}
          onClose={() => setDeleting(false)}
        >
          <Text size="sm">
            <Trans>It serves no SA. {gateway} forgets the port that leads to it.</Trans>
          </Text>
        </ConfirmDialog>
      )}
    </Group>
  );
}

function AddDialog({ gateway, onClose }: { gateway: string; onClose: () => void }) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: async (asked: typeof BLANK) =>
      api.POST("/api/v1/gateways/{gateway}/crypto-hosts", {
        params: { path: { gateway } },
        body: { ...asked, device_id: 1 },
      }),
    onSuccess: async () => {
      await queries.invalidateQueries(hostsQuery(gateway));
      onClose();
    },
  });
  return (
    <FormDialog
      title={t`Add a crypto host to ${gateway}`}
      act={t`Add it`}
      initial={BLANK}
      mutation={add}
      onClose={onClose}
    >
      {(form) => (
        <Stack>
          <TextInput label={t`Name`} required data-autofocus {...form.getInputProps("name")} />
          <TextInput
            label={t`P4Runtime address`}
            description={t`The sluice’s HOST:PORT, as the controller reaches it`}
            required
            {...form.getInputProps("p4runtime")}
          />
          <Ends form={form} />
        </Stack>
      )}
    </FormDialog>
  );
}

/** The two ends of the cable between gateway and host. */
function Ends({ form }: { form: { getInputProps: (path: string) => object } }) {
  return (
    <>
      <Group grow align="flex-start">
        <NumberInput label={t`Gateway’s port`} required min={0} max={511} {...form.getInputProps("port")} />
        <TextInput
          label={t`MAC address there`}
          required
          placeholder="02:00:00:00:04:01"
          {...form.getInputProps("mac")}
        />
      </Group>
      <Group grow align="flex-start">
        <NumberInput label={t`Host’s port`} required min={0} max={511} {...form.getInputProps("host_port")} />
        <TextInput
          label={t`MAC address there`}
          aria-label={t`MAC address at the host’s port`}
          required
          placeholder="02:00:00:00:04:02"
          {...form.getInputProps("host_mac")}
        />
      </Group>
    </>
  );
}
