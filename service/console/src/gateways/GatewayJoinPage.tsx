import { i18n, type MessageDescriptor } from "@lingui/core";
import { msg, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Button, Code, CopyButton, Group, Stack, Stepper, Text, TextInput } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { api, body, type Schemas } from "../api/client";
import { useGateways } from "../live/live";
import { CreateForm, type Created } from "../shared/CreateForm";
import { AnchorLink, ButtonLink } from "../shared/links";
import { PageHead } from "../shared/PageHead";
import { ProblemNote } from "../shared/ProblemNote";
import { useNow } from "../shared/useNow";
import { commandOf, progressOf, type Progress } from "./joining";

type Made = Schemas["GatewayLinkOut"];
type Form = { gateway: string; pool: string };

const AGAIN_MS = 1500;
const CREATED: Created<Form> = {
  initial: { gateway: "", pool: "" },
  fieldsOf: () => ["gateway", "pool"],
};

/** Makes the link with which a computer joins as a gateway, and shows its way from there to online. */
const STATES: Record<Progress, MessageDescriptor> = {
  waiting: msg`waiting`,
  joined: msg`joined`,
  online: msg`online`,
  expired: msg`expired`,
};

export function GatewayJoinPage() {
  const [made, setMade] = useState<Made | null>(null);
  return (
    <Stack maw={760}>
      <PageHead
        title={t`Add a gateway`}
        about={t`A gateway ends tunnels between the internet and your network. It is a computer with two interfaces for the gateway, and a third one of its own.`}
      />
      {made === null ? (
        <CreateForm
          label={t`Gateway`}
          created={CREATED}
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
                label={t`Addresses of devices`}
                description={t`A prefix that no other network uses; your network routes it to this gateway`}
                placeholder="10.99.0.0/24"
                required
                spellCheck={false}
                {...form.getInputProps("pool")}
              />
              <Text size="sm" c="dimmed">
                <Trans>
                  The gateway finds its addresses, MAC addresses and routers itself. For a switch of another
                  kind,{" "}
                  <AnchorLink to="/gateways/new" underline="always">
                    describe the gateway by hand
                  </AnchorLink>
                  .
                </Trans>
              </Text>
            </>
          )}
        </CreateForm>
      ) : (
        <Waiting made={made} onAnew={setMade} />
      )}
    </Stack>
  );
}

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
  const command = commandOf(made.link);
  return (
    <Stack gap="lg">
      {state === "waiting" && (
        <div>
          <Text size="sm" mb="xs">
            <Trans>
              Copy the package to the computer, and run this line there as root. It shows its plan and asks
              before it changes anything. The link is good once; it is shown here and kept nowhere.
            </Trans>
          </Text>
          <Code
            block
            aria-label={t`Command`}
            className="mono"
            style={{ whiteSpace: "pre-wrap", wordBreak: "break-all" }}
          >
            {command}
          </Code>
          <CopyButton value={command}>
            {({ copied, copy }) => (
              <Button
                mt="xs"
                variant="default"
                leftSection={copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
                onClick={copy}
              >
                {copied ? t`Copied` : t`Copy`}
              </Button>
            )}
          </CopyButton>
        </div>
      )}
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
        <Badge
          variant="light"
          tt="none"
          color={state === "online" ? "culvert" : state === "expired" ? "red" : "gray"}
        >
          {i18n._(STATES[state])}
        </Badge>
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
        <ButtonLink variant="default" to="/gateways">
          {state === "online" ? t`Done` : t`To the gateways`}
        </ButtonLink>
      </Group>
    </Stack>
  );
}
