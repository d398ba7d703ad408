import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { ActionIcon, Button, Menu } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import {
  IconDots,
  IconHistory,
  IconQrcode,
  IconShieldCheck,
  IconShieldOff,
  IconTrash,
} from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api } from "../api/client";
import { ProblemError } from "../api/problem";
import { notifyProblem } from "../shared/ProblemNote";
import { stateOf, type Device } from "./queries";

export type Doing = "revoke" | "authenticator";

// Another administrator has revoked or deleted it: it waits no more.
const GONE = ["DEVICE_REVOKED", "NOT_FOUND"];

/**
 * Approves devices, one after the other; the rest stays as it is when one is refused. `name`: of a single one. `onEach` gets
 * the number of devices that are done.
 */
export function useApproval(
  onDone: (ids: readonly string[]) => void,
  name?: string,
  onEach?: (done: number) => void,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (ids: readonly string[]) => {
      let approved = 0;
      for (const [at, device_id] of ids.entries()) {
        try {
          await api.POST("/api/v1/devices/{device_id}/approve", { params: { path: { device_id } } });
          approved += 1;
        } catch (error) {
          const isGone = error instanceof ProblemError && GONE.includes(error.reason);
          if (!isGone || name !== undefined) throw error;
        }
        onEach?.(at + 1);
      }
      return approved;
    },
    onSuccess: (approved, ids) => {
      notifications.show({
        message:
          name !== undefined
            ? t`${name} is approved`
            : plural(approved, { one: "# device is approved", other: "# devices are approved" }),
      });
      onDone(ids);
    },
    onError: notifyProblem,
    onSettled: () => queries.invalidateQueries({ queryKey: ["devices"] }),
  });
}

/** On a phone the menu has it. */
export function Approve({
  device: { id, name, user },
  onDone,
}: {
  device: Device;
  onDone: (ids: readonly string[]) => void;
}) {
  const approve = useApproval(onDone, name);
  return (
    <Button
      size="compact-sm"
      variant="default"
      visibleFrom="sm"
      aria-label={t`Approve ${name} of ${user}`}
      loading={approve.isPending}
      onClick={() => approve.mutate([id])}
    >
      <Trans>Approve</Trans>
    </Button>
  );
}

/** The rarer acts; the revocation stands last, and apart from the approval. */
export function More({
  device,
  mayWrite,
  onApproved,
  onDo,
}: {
  device: Device;
  mayWrite: boolean;
  onApproved: (ids: readonly string[]) => void;
  onDo: (what: Doing) => void;
}) {
  const { id, name, user } = device;
  const state = stateOf(device);
  const queries = useQueryClient();
  const approve = useApproval(onApproved, name);
  const withdraw = useMutation({
    mutationFn: () =>
      api.POST("/api/v1/devices/{device_id}/unapprove", { params: { path: { device_id: id } } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["devices"] }),
    onError: notifyProblem,
  });
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={t`More about ${name} of ${user}`}>
          <IconDots size={18} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item
          leftSection={<IconHistory size={16} />}
          renderRoot={(props) => <Link {...props} to="/activity" search={{ actor: id }} />}
        >
          <Trans>Its activity</Trans>
        </Menu.Item>
        {mayWrite && state !== "revoked" && (
          <>
            <Menu.Item leftSection={<IconQrcode size={16} />} onClick={() => onDo("authenticator")}>
              <Trans>Make a new authenticator</Trans>
            </Menu.Item>
            {state !== "approved" && (
              <Menu.Item leftSection={<IconShieldCheck size={16} />} onClick={() => approve.mutate([id])}>
                <Trans>Approve</Trans>
              </Menu.Item>
            )}
            {state === "approved" && (
              <Menu.Item leftSection={<IconShieldOff size={16} />} onClick={() => withdraw.mutate()}>
                <Trans>Withdraw the approval</Trans>
              </Menu.Item>
            )}
            <Menu.Divider />
            <Menu.Item
              c="var(--mantine-color-error)"
              leftSection={<IconTrash size={16} />}
              onClick={() => onDo("revoke")}
            >
              <Trans>Revoke</Trans>
            </Menu.Item>
          </>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
