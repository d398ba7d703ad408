/** The permissions of a role (service/culvert_service/admins/permission.py). Pure. */
import type { Schemas } from "../api/client";

type Role = Schemas["SignedInOut"]["role"];

// Write access to these areas would let an administrator grant themselves all others (admins/permission.py).
const OWNERS_AREAS = ["admins", "tokens"];

/** The controller's own rule; the controller checks each request too. */
export function mayWrite(role: Role, area: string): boolean {
  return role === "owner" || (role === "admin" && !OWNERS_AREAS.includes(area));
}
