/** Which lists show what a line of the audit log is about. Pure. */

// What a change of one kind of object shows in beside its own lists.
const ALSO: Record<string, string[]> = {
  user: ["users", "invitations", "devices", "groups", "policies", "resources"],
  // One that is enrolled has used an invitation up.
  device: ["devices", "users", "invitations"],
  group: ["groups", "policies"],
  policy: ["policies", "resources"],
  resource: ["resources", "policies", "dns", "site-tunnels"],
  gateway: ["gateways", "resources", "site-tunnels"],
  "site-tunnel": ["site-tunnels", "gateways"],
  zone: ["dns"],
  admin: ["admins", "account"],
  // The event about an administrator's invitation has only the role.
  role: ["admins", "account"],
  token: ["tokens", "admins", "account"],
};

/** The areas whose lists a line concerns. */
export function areasOf(line: { object: string }): string[] {
  const kind = line.object.split("/", 1)[0] ?? "";
  return ["audit", ...(ALSO[kind] ?? [])];
}
