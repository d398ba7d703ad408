/** What a role may do (service/culvert_service/admins/permission.py). Pure. */
import type { Schemas } from "../api/client";

type Role = Schemas["SignedInOut"]["role"];

// Write access to these areas would let an administrator grant themselves all others (admins/permission.py).
const OWNERS_AREAS = ["admins", "tokens"];

/** As the controller decides it; it decides again when asked. */
export function mayWrite(role: Role, area: string): boolean {
  return role === "owner" || (role === "admin" && !OWNERS_AREAS.includes(area));
}
