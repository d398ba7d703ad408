import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Anchor, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, body, type Schemas, type Tagged } from "../api/client";
import { formOf, written } from "../policies/form";
import { PolicyEffect } from "../policies/PolicyEffect";
import { allPolicies, policyQuery, type Policy } from "../policies/queries";
import { useMayWrite } from "../session/session";
import { ConfirmDialog } from "../shared/ConfirmDialog";
import { AnchorLink } from "../shared/links";

type Trace = Schemas["TraceOut"];

const GROUPS_MAX = 3;

/** The acts of an administrator against a denial, each with its place. The person's own remedy is another. */
export function Remedy({ user, fqdn, trace }: { user: string; fqdn: string; trace: Trace }) {
  const { reason, resource } = trace;
  const failed = trace.steps.find((step) => !step.holds && step.reason === reason);
  const name = failed?.subject ?? "";
  switch (reason) {
    case "NO_POLICY":
      return name !== "" ? <TurnOn name={name} /> : <NoPolicy user={user} fqdn={fqdn} resource={resource} />;
    case "OUTSIDE_HOURS":
    case "POSTURE_NOT_MET":
    case "SOURCE_NOT_ALLOWED":
      return <PolicyRemedy name={name} />;
    case "CODE_NEEDED":
    case "CODE_EXPIRED":
    case "CODE_TOO_OLD":
      return (
        <Text size="sm" c="dimmed" className="measure">
          <Trans>
            {user} enters a code at {trace.device}. If the authenticator is lost, give the device a new one in{" "}
            <AnchorLink to="/devices" search={{ user }} inherit underline="always">
              the list of devices
            </AnchorLink>
            .
          </Trans>
        </Text>
      );
    case "DEVICE_NOT_APPROVED":
      return (
        <AnchorLink to="/devices" search={{ user, state: "pending" }} size="sm" underline="always">
          <Trans>Approve {trace.device}</Trans>
        </AnchorLink>
      );
    case "DEVICE_REVOKED":
      return (
        <AnchorLink to="/people/of/$name" params={{ name: user }} size="sm" underline="always">
          <Trans>Invite a computer of {user}</Trans>
        </AnchorLink>
      );
    case "NAME_UNKNOWN":
      return (
        <AnchorLink to="/resources/new" search={{ fqdn }} size="sm" underline="always">
          <Trans>Add a resource with this name</Trans>
        </AnchorLink>
      );
    case "GATEWAY_DOWN":
    case "GATEWAY_DRAINING":
      return failed === undefined ? (
        <AnchorLink to="/gateways" size="sm" underline="always">
          <Trans>Look at the gateways</Trans>
        </AnchorLink>
      ) : (
        <AnchorLink to="/gateways/of/$name" params={{ name }} size="sm" underline="always">
          <Trans>Look at {name}</Trans>
        </AnchorLink>
      );
    default:
      return (
        <Text size="sm" c="dimmed">
          {trace.remedy}
        </Text>
      );
  }
}

function PolicyRemedy({ name }: { name: string }) {
  return (
    <AnchorLink to="/policies/of/$name" params={{ name }} size="sm" underline="always" className="name">
      {t`Change the policy “${name}”`}
    </AnchorLink>
  );
}

/** Turns the policy on here, after its effect was shown. */
function TurnOn({ name }: { name: string }) {
  const [isOpen, { open, close }] = useDisclosure();
  const mayWrite = useMayWrite("policies");
  const found = useQuery({ ...policyQuery(name), enabled: isOpen }).data;
  if (!mayWrite) return <PolicyRemedy name={name} />;
  return (
    <>
      <Anchor component="button" type="button" size="sm" underline="always" className="name" onClick={open}>
        {t`Turn on the policy “${name}”`}
      </Anchor>
      {isOpen && found && <TurnOnDialog found={found} onClose={close} />}
    </>
  );
}

function TurnOnDialog({ found: { row, etag }, onClose }: { found: Tagged<Policy>; onClose: () => void }) {
  const { name } = row;
  const queries = useQueryClient();
  const [isBroken, setBroken] = useState(false);
  const mutation = useMutation({
    mutationFn: async () =>
      body(
        await api.PUT("/api/v1/policies/{name}", {
          params: { path: { name }, header: { "if-match": etag } },
          body: { ...written(row), enabled: true },
        }),
      ),
    onSuccess: async () => {
      notifications.show({ message: t`${name} is in force` });
      onClose();
      await queries.invalidateQueries({ queryKey: ["policies"] });
    },
    onError: () => queries.refetchQueries(policyQuery(name)),
  });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={t`Turn on the policy “${name}”?`}
      act={t`Turn on`}
      keep={t`Cancel`}
      harmless
      mutation={mutation}
      mayAct={!isBroken}
    >
      <PolicyEffect
        values={{ ...formOf(row, Intl.DateTimeFormat().resolvedOptions().timeZone), enabled: true }}
        before={row}
        onBreaks={setBroken}
      />
    </ConfirmDialog>
  );
}

/** The groups that reach the resource, and a policy of its own. */
function NoPolicy({ user, fqdn, resource }: { user: string; fqdn: string; resource: string | null }) {
  const policies = useQuery({
    queryKey: ["policies", "to", resource],
    queryFn: () => allPolicies({ resource: resource ?? "" }),
    enabled: resource !== null,
  }).data;
  const groups = new Set(
    (policies ?? []).filter(({ enabled }) => enabled).flatMap(({ group }) => (group == null ? [] : [group])),
  );
  return (
    <Stack gap={4} align="flex-start">
      {[...groups].slice(0, GROUPS_MAX).map((group) => (
        <AnchorLink
          key={group}
          to="/groups/of/$name"
          params={{ name: group }}
          size="sm"
          underline="always"
          className="name"
        >
          {t`Add ${user} to the group ${group}, which may reach it`}
        </AnchorLink>
      ))}
      <AnchorLink
        to="/policies/new"
        search={{ user, ...(resource !== null && { resource }), check: fqdn }}
        size="sm"
        underline="always"
      >
        {groups.size === 0 ? t`Add a policy for ${user}` : t`Or add a policy for ${user} alone`}
      </AnchorLink>
    </Stack>
  );
}
