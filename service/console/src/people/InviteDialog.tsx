import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Alert, Button, Group, Stack, Text, TextInput, ThemeIcon } from "@mantine/core";
import { IconCheck, IconDots, IconExternalLink } from "@tabler/icons-react";
import { queryOptions, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, body, type Schemas } from "../api/client";
import { useTunnelsBy } from "../live/live";
import { useMayWrite } from "../session/session";
import { controllerQuery } from "../settings/queries";
import { CopyText } from "../shared/CopyText";
import { Dialog, DialogButtons } from "../shared/Dialog";
import { ButtonLink } from "../shared/links";
import { calledBy } from "../shared/PersonName";
import { ProblemNote } from "../shared/ProblemNote";
import { SecretPanel } from "../shared/SecretPanel";
import { moment } from "../shared/words";
import { personQuery, reachesQuery } from "./queries";

export type Invitation = Schemas["InvitationOut"];

export const makeInvitation = async (user: string): Promise<Invitation> =>
  body(await api.POST("/api/v1/invitations", { body: { user } }));

/** The link is made on request, because each one enrols a computer. `made`: the link of a request before. */
export function InviteDialog({
  name: login,
  made,
  onClose,
}: {
  name: string;
  made?: Invitation | null;
  onClose: () => void;
}) {
  const name = calledBy(login, useQuery(personQuery(login)).data?.row.display_name ?? null);
  const invite = useMutation({ mutationFn: () => makeInvitation(login) });
  const invitation = made ?? invite.data;
  return (
    <Dialog opened onClose={onClose} title={t`Invite a computer of ${name}`}>
      {invitation === undefined ? (
        <Stack>
          <Text size="sm">
            <Trans>
              The link opens a page that leads {name} through the enrolment of one computer. Give it to {name}{" "}
              alone: a computer that uses it has their access.
            </Trans>
          </Text>
          {invite.error && <ProblemNote error={invite.error} />}
          <DialogButtons>
            <Button variant="default" onClick={onClose}>
              <Trans>Later</Trans>
            </Button>
            <Button onClick={() => invite.mutate()} loading={invite.isPending}>
              <Trans>Make a link</Trans>
            </Button>
          </DialogButtons>
        </Stack>
      ) : (
        <Made login={login} name={name} invitation={invitation} onClose={onClose} />
      )}
    </Dialog>
  );
}

/** The link, until a computer has used it; and the steps of that computer, as they happen. */
function Made({
  login,
  name,
  invitation: { link, expires_at },
  onClose,
}: {
  login: string;
  /** As people write it. */
  name: string;
  invitation: Invitation;
  onClose: () => void;
}) {
  const { device, opened } = useFirstSteps(login, link);
  const until = moment(expires_at);
  return (
    <Stack>
      {device === null && (
        <Text size="sm">
          <Trans>
            Send this link to {name} alone, who opens it on the computer that is to be enrolled: Culvert sends
            no mail.
          </Trans>
        </Text>
      )}
      <Stack component="ol" gap="xs" m={0} p={0} style={{ listStyle: "none" }} aria-live="polite">
        <Step isDone={device !== null}>
          {device === null ? t`Waiting for the computer to enrol` : t`${device} is enrolled`}
        </Step>
        <Step isDone={opened !== null}>
          {opened === null ? t`${name} has not opened a page yet` : t`${name} has opened ${opened}`}
        </Step>
      </Stack>
      <WithoutPolicy login={login} name={name} />
      {device === null && <WithoutWarning link={link} />}
      {device === null ? (
        <SecretPanel label={t`Invitation`} value={link} about={t`Valid until ${until}.`} onClose={onClose} />
      ) : (
        <DialogButtons>
          <Button onClick={onClose}>
            <Trans>Done</Trans>
          </Button>
        </DialogButtons>
      )}
    </Stack>
  );
}

/** While browsers get a certificate of Culvert's CA: the command that checks this CA by the link. */
function WithoutWarning({ link }: { link: string }) {
  if (!useQuery(controllerQuery).data?.own_certificate) return null;
  const line = ["culvert", "enroll", `'${link}'`].join(" ");
  return (
    <Stack gap="xs">
      <Text size="sm">
        <Trans>
          The browser warns before it shows the page, because Culvert’s own CA has issued the controller’s
          certificate. On a computer with Culvert installed, this line enrols without the warning: the link
          has the fingerprint of the CA.
        </Trans>
      </Text>
      <Group wrap="nowrap" gap="xs">
        <TextInput
          aria-label={t`Line for a terminal`}
          readOnly
          value={line}
          classNames={{ input: "mono" }}
          flex={1}
          onFocus={(event) => event.target.select()}
        />
        <CopyText value={line} variant="default" />
      </Group>
    </Stack>
  );
}

const someResourceQuery = queryOptions({
  queryKey: ["resources", "any"],
  queryFn: async () =>
    body(await api.GET("/api/v1/resources", { params: { query: { limit: 1 } } })).length > 0,
});

/** The policy opens in another tab, because this dialog shows the link only once and follows the computer. */
function WithoutPolicy({ login, name }: { login: string; name: string }) {
  const mayWrite = useMayWrite("policies");
  const mayAdd = useMayWrite("resources");
  const isWithout = useQuery(reachesQuery(login)).data === false;
  const resources = useQuery({ ...someResourceQuery, enabled: isWithout }).data;
  if (!isWithout || resources === undefined) return null;
  const button = {
    target: "_blank",
    variant: "default",
    size: "compact-sm",
    mt: "xs",
    h: "auto",
    maw: "100%",
    styles: { label: { whiteSpace: "normal", lineHeight: 1.4, paddingBlock: 3 } },
    rightSection: <IconExternalLink size={14} aria-label={t`in a new tab`} />,
  } as const;
  return (
    <Alert variant="light" color="yellow">
      <Text size="sm">
        {resources ? (
          <Trans>{name} can open nothing yet: no policy lets them reach a resource.</Trans>
        ) : (
          <Trans>{name} can open nothing yet: there is no resource.</Trans>
        )}
      </Text>
      {resources && mayWrite && (
        <ButtonLink to="/policies/new" search={{ user: login }} {...button}>
          <Trans>Add a policy for {name}</Trans>
        </ButtonLink>
      )}
      {!resources && mayAdd && (
        <ButtonLink to="/resources/new" {...button}>
          <Trans>Add a resource</Trans>
        </ButtonLink>
      )}
    </Alert>
  );
}

function Step({ isDone, children }: { isDone: boolean; children: string }) {
  return (
    <Group component="li" wrap="nowrap" gap="sm" data-done={isDone}>
      <ThemeIcon
        size={22}
        radius="xl"
        variant={isDone ? "filled" : "default"}
        role="img"
        aria-label={isDone ? t`done` : t`to do`}
      >
        {isDone ? <IconCheck size={14} /> : <IconDots size={14} />}
      </ThemeIcon>
      <Text size="sm" className="name" {...(!isDone && { c: "dimmed" })}>
        {children}
      </Text>
    </Group>
  );
}

/**
 * The name of the device that the person has enrolled since the link was made, and of the first resource that it has
 * opened. The log's lines make the devices stale; the tunnels are live.
 */
function useFirstSteps(user: string, link: string): { device: string | null; opened: string | null } {
  // No answer from before the link: each device that it lacks is new.
  const devices = useQuery({
    queryKey: ["devices", "since", link],
    queryFn: async () => body(await api.GET("/api/v1/devices", { params: { query: { user, limit: 500 } } })),
    gcTime: 0,
  }).data;
  const [before, setBefore] = useState<ReadonlySet<string> | null>(null);
  if (before === null && devices !== undefined) setBefore(new Set(devices.map(({ id }) => id)));
  const device = devices?.find(({ id }) => before !== null && !before.has(id));
  const tunnels = useTunnelsBy("device_id");
  const tunnel = device && tunnels.get(device.id)?.[0];
  // A tunnel may close while the dialog is open.
  const [opened, setOpened] = useState<string | null>(null);
  if (opened === null && tunnel !== undefined) setOpened(tunnel.display_name);
  return { device: device?.name ?? null, opened };
}
