import { i18n, type MessageDescriptor } from "@lingui/core";
import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import {
  Badge,
  Button,
  Checkbox,
  Code,
  Group,
  SegmentedControl,
  Stack,
  Stepper,
  Text,
  TextInput,
  Title,
  VisuallyHidden,
} from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { api, body, type Schemas } from "../api/client";
import { useGateways } from "../live/live";
import { CopyText } from "../shared/CopyText";
import { CreateForm } from "../shared/CreateForm";
import { Fold } from "../shared/Fold";
import { AnchorLink, ButtonLink } from "../shared/links";
import { Loading } from "../shared/Loading";
import { PageHead } from "../shared/PageHead";
import { ProblemNote } from "../shared/ProblemNote";
import { useNow } from "../shared/useNow";
import { useUnsaved } from "../shared/useUnsaved";
import { either } from "../shared/words";
import {
  copyCommand,
  commandOf,
  placementFaults,
  progressOf,
  SYSTEMS,
  type Placement,
  type Progress,
  type System,
} from "./joining";
import { PoolHint } from "./GatewayFields";
import { freePoolsQuery } from "./queries";

type Made = Schemas["GatewayLinkOut"];
type Form = { gateway: string; pool: string };

const AGAIN_MS = 1500;
const FIELDS = () => ["gateway", "pool"];

const STATES: Record<Progress, MessageDescriptor> = {
  waiting: msg`waiting`,
  joined: msg`joined`,
  online: msg`online`,
  expired: msg`expired`,
};

/** Makes the link with which a computer joins as a gateway, and shows its way from there to online. */
export function GatewayJoinPage() {
  const [made, setMade] = useState<Made | null>(null);
  const free = useQuery({ ...freePoolsQuery, enabled: made === null });
  return (
    <Stack maw={760}>
      <PageHead
        title={made === null ? t`Add a gateway` : headingOf(made)}
        about={t`A gateway ends tunnels between the internet and your network. A computer or a virtual machine with one interface is enough.`}
      />
      {made !== null ? (
        <Waiting made={made} onAnew={setMade} />
      ) : free.isPending ? (
        <Loading forWhat={t`a free address pool`} />
      ) : (
        <CreateForm<Form, Made>
          label={t`Gateway`}
          created={{ initial: { gateway: "", pool: free.data?.pool ?? "" }, fieldsOf: FIELDS }}
          submit={t`Make the link`}
          create={(form) => makeLink(form)}
          onCreated={setMade}
          list="/gateways"
        >
          {(form) => (
            <>
              <TextInput
                label={t`Name`}
                placeholder={t`gw-berlin`}
                required
                spellCheck={false}
                autoCapitalize="none"
                {...form.getInputProps("gateway")}
              />
              <TextInput
                label={t`Address pool`}
                description={<PoolHint isFree={form.values.pool === free.data?.pool} />}
                placeholder="10.99.0.0/24"
                required
                spellCheck={false}
                {...form.getInputProps("pool")}
              />
              <Text size="sm" c="dimmed" className="measure">
                <Trans>
                  The gateway is a computer with Debian or Ubuntu, and finds its addresses and routers itself.
                  For a P4 switch,{" "}
                  <AnchorLink to="/gateways/new" underline="always">
                    describe the gateway by hand
                  </AnchorLink>
                  .
                </Trans>
              </Text>
            </>
          )}
        </CreateForm>
      )}
    </Stack>
  );
}

const headingOf = ({ gateway, pool }: Made): string =>
  pool === null ? t`Add ${gateway}` : t`Add ${gateway} (${pool})`;

const makeLink = async ({ gateway, pool }: Form): Promise<Made> =>
  body(await api.POST("/api/v1/gateway-enrolments", { body: { gateway, pool } }));

function Waiting({ made, onAnew }: { made: Made; onAnew: (made: Made) => void }) {
  const now = useNow();
  const { rows } = useGateways();
  const { data } = useQuery({
    queryKey: ["gateway-enrolments", made.id],
    queryFn: async () =>
      body(await api.GET("/api/v1/gateway-enrolments/{number}", { params: { path: { number: made.id } } })),
    refetchInterval: ({ state }) => (state.data?.state === "joined" ? false : AGAIN_MS),
  });
  const anew = useMutation({
    mutationFn: () => makeLink({ gateway: made.gateway, pool: made.pool ?? "" }),
    onSuccess: onAnew,
  });
  const navigate = useNavigate();
  const withdraw = useMutation({
    mutationFn: () =>
      api.DELETE("/api/v1/gateway-enrolments/{number}", { params: { path: { number: made.id } } }),
    onSuccess: () => navigate({ to: "/gateways" }),
  });
  const gateway = rows?.get(made.gateway);
  const { state, words } = progressOf(data ?? made, gateway, now);
  useUnsaved(state === "waiting");
  return (
    <Stack gap="lg">
      {state === "waiting" && <Commands link={made.link} install={made.install} pool={made.pool} />}
      <Stepper
        active={{ expired: 0, waiting: 0, joined: 1, online: 3 }[state]}
        size="sm"
        orientation="vertical"
        allowNextStepsSelect={false}
        aria-label={t`Progress`}
      >
        <Stepper.Step
          loading={state === "waiting"}
          {...(state === "expired" && { color: "red" })}
          label={state === "expired" ? t`The link has expired` : t`The computer joins`}
          description={state === "waiting" || state === "expired" ? words : t`${made.gateway} has joined`}
        />
        <Stepper.Step
          loading={state === "joined"}
          label={t`The gateway is online`}
          description={state === "joined" ? words : state === "online" ? words : t`It connects by itself`}
        />
      </Stepper>
      <Group role="status">
        {state === "online" || state === "expired" ? (
          <Badge variant="light" tt="none" color={state === "online" ? "culvert" : "red"}>
            {i18n._(STATES[state])}
          </Badge>
        ) : (
          // The steps above show it.
          <VisuallyHidden>{i18n._(STATES[state])}</VisuallyHidden>
        )}
        {state === "online" && (
          <AnchorLink to="/gateways/of/$name" params={{ name: made.gateway }}>
            <Trans>To {made.gateway}</Trans>
          </AnchorLink>
        )}
      </Group>
      {anew.error && <ProblemNote error={anew.error} />}
      {withdraw.error && <ProblemNote error={withdraw.error} />}
      <Group>
        {state === "waiting" && (
          <Button variant="default" onClick={() => withdraw.mutate()} loading={withdraw.isPending}>
            <Trans>Withdraw the link</Trans>
          </Button>
        )}
        {state === "expired" && (
          <Button onClick={() => anew.mutate()} loading={anew.isPending}>
            <Trans>Make a new link</Trans>
          </Button>
        )}
        {state === "online" && (
          <ButtonLink to="/resources/new">
            <Trans>Add a resource</Trans>
          </ButtonLink>
        )}
        <ButtonLink variant="default" to="/gateways">
          {state === "online" ? t`Done` : t`To the gateways`}
        </ButtonLink>
      </Group>
    </Stack>
  );
}

const ANYWHERE: Placement = { publicAddress: "", beside: "", masquerade: false };

function Commands({ link, install, pool }: Pick<Made, "link" | "install" | "pool">) {
  const [placement, setPlacement] = useState(ANYWHERE);
  const place = (changed: Partial<Placement>) => setPlacement({ ...placement, ...changed });
  const faults = placementFaults(placement);
  return (
    <Stack gap="md">
      {install === null ? <FromFile /> : <FromRepository install={install} />}
      <Stack gap="xs">
        <Title order={2} size="h5">
          {install === null ? t`2. Install it and join` : t`2. Join`}
        </Title>
        <Text size="sm" className="measure">
          <Trans>
            Devices reach the gateway at UDP port 4500, and by ESP (IP protocol 50) where no NAT is between:
            open both towards it. It connects to the controller by itself.
          </Trans>
        </Text>
        {pool !== null && (
          <Text size="sm" className="measure">
            <Trans>
              Your network’s router needs a route for {pool} that leads to this computer; the command prints
              it.
            </Trans>
          </Text>
        )}
        <Fold
          title={t`Behind a port-forward, beside other services, or without a route`}
          fields={["publicAddress", "beside"]}
          errors={faults}
        >
          <Stack>
            <TextInput
              label={t`Public address`}
              description={t`Where a port-forward or a cloud’s elastic address leads here: the address that devices use`}
              placeholder="203.0.113.7"
              spellCheck={false}
              value={placement.publicAddress}
              error={faults.publicAddress}
              onChange={({ currentTarget }) => place({ publicAddress: currentTarget.value.trim() })}
            />
            <TextInput
              label={t`Shared interface`}
              description={t`On a computer with several interfaces: the one that the gateway shares with its other services`}
              placeholder="eth0"
              spellCheck={false}
              value={placement.beside}
              error={faults.beside}
              onChange={({ currentTarget }) => place({ beside: currentTarget.value.trim() })}
            />
            <Checkbox
              label={t`Nobody can add a route to the intranet’s router`}
              description={t`Servers then see the gateway’s address instead of the devices’ addresses`}
              checked={placement.masquerade}
              onChange={({ currentTarget }) => place({ masquerade: currentTarget.checked })}
            />
          </Stack>
        </Fold>
        <Text size="sm" className="measure">
          <Trans>
            Run this there as root, for example after <code>sudo -s</code>. It shows its plan and asks before
            it changes anything. The link is good once; it is shown here and kept nowhere.
          </Trans>
        </Text>
        <Command label={t`Command`} text={commandOf(link, placement, install !== null)} />
      </Stack>
    </Stack>
  );
}

function FromFile() {
  const [system, setSystem] = useState<System>("deb12");
  return (
    <Stack gap="xs">
      <Title order={2} size="h5">
        <Trans>1. Copy the package to the computer</Trans>
      </Title>
      <Text size="sm" className="measure">
        <Trans>
          The file <code>culvert-gateway_…~{system}_….deb</code> lies beside the controller’s package in the
          release from which the controller was installed. From that folder, with a user of the computer and
          its address:
        </Trans>
      </Text>
      <SegmentedControl
        aria-label={t`The computer’s system`}
        data={Object.entries(SYSTEMS).map(([value, label]) => ({ value: value as System, label }))}
        value={system}
        onChange={setSystem}
        style={{ alignSelf: "flex-start" }}
      />
      <Command label={t`Command that copies the package`} text={copyCommand(system)} />
      <Text size="xs" c="dimmed" className="measure">
        <Trans>
          With the package culvert-repository on the controller’s host, this page shows a line that downloads
          it instead.
        </Trans>
      </Text>
    </Stack>
  );
}

function FromRepository({ install: { command, systems, key } }: { install: NonNullable<Made["install"]> }) {
  const names = either(systems);
  const fingerprint = key.match(/.{4}/g)?.join(" ") ?? key;
  return (
    <Stack gap="xs">
      <Title order={2} size="h5">
        <Trans>1. Install the package</Trans>
      </Title>
      <Text size="sm" className="measure">
        <Trans>
          On the computer, as root, with {names}. The packages come from this controller, and apt upgrades
          them from then on.
        </Trans>
      </Text>
      <Command label={t`Command that installs the package`} text={command} />
      <Text size="xs" c="dimmed" className="name measure">
        <Trans>
          The line checks its download. The packages are signed with the key of Culvert’s releases:{" "}
          {fingerprint}
        </Trans>
      </Text>
    </Stack>
  );
}

function Command({ label, text }: { label: string; text: string }) {
  return (
    <>
      <Code
        block
        aria-label={label}
        className="mono"
        style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}
      >
        {text}
      </Code>
      <CopyText value={text} variant="default" style={{ alignSelf: "flex-start" }} />
    </>
  );
}
