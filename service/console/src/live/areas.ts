/** The lists that show the object of an audit log line. Pure. */

import type { Schemas } from "../api/client";

// The lists that show each kind of object.
const ALSO: Record<string, string[]> = {
  user: ["users", "invitations", "devices", "groups", "policies", "resources", "assertions", "access"],
  // An enrolment uses up an invitation.
  device: ["devices", "users", "invitations", "access"],
  // A policy may ask for approved devices.
  group: ["groups", "policies", "devices", "assertions", "access"],
  policy: ["policies", "resources", "devices", "assertions", "access"],
  // Forms show the assertions that a change would break.
  assertion: ["assertions", "policies", "groups", "resources"],
  resource: ["resources", "policies", "dns", "site-tunnels", "assertions", "access"],
  gateway: ["gateways", "resources", "site-tunnels", "access"],
  "site-tunnel": ["site-tunnels", "gateways"],
  zone: ["dns"],
  admin: ["admins", "account"],
  // The event about an administrator's invitation has only the role.
  role: ["admins", "account"],
  token: ["tokens", "admins", "account"],
};

/** Whether the overview counts the line among the openings and refusals of the last hours. */
export const isCounted = ({ actor_kind, action, outcome }: Counted): boolean =>
  actor_kind === "device" && (action === "tunnel.open" || outcome === "denied");

type Counted = Pick<Schemas["NamedLineOut"], "actor_kind" | "action" | "outcome">;

/** The areas whose lists a line makes stale. */
export function areasOf(line: { object: string }): string[] {
  const kind = line.object.split("/", 1)[0] ?? "";
  return ["audit", ...(ALSO[kind] ?? [])];
}
