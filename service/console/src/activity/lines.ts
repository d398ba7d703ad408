/** The actor and the object of an audit log line in words. Pure. */
import { i18n, type MessageDescriptor } from "@lingui/core";
import { msg, t } from "@lingui/core/macro";
import type { Line } from "./queries";

type About = Pick<Line, "object" | "details" | "names">;

const KINDS: Readonly<Record<string, MessageDescriptor>> = {
  admin: msg`administrator`,
  controller: msg`controller`,
  device: msg`device`,
  gateway: msg`gateway`,
  group: msg`group`,
  name: msg`name`,
  policy: msg`policy`,
  resource: msg`resource`,
  role: msg`role`,
  "site-tunnel": msg`site tunnel`,
  token: msg`API token`,
  user: msg`person`,
  zone: msg`zone`,
};

/** A kind of objects, in words; as the log names it if it is new. */
function kindOf(kind: string): string {
  const known = KINDS[kind];
  return known ? i18n._(known) : kind;
}

/** "laptop of alice" for a device that is there still, else its id. */
export function actorOf({ actor, names }: Pick<Line, "actor" | "names">): string {
  return names[actor] ?? actor;
}

/** "tunnel to wiki.corp.example, of laptop of alice, at gw-berlin"; "device laptop of alice"; "resource wiki". */
export function objectOf({ object, details, names }: About): string {
  const place = object.indexOf("/");
  const [kind, id] = place < 0 ? [object, ""] : [object.slice(0, place), object.slice(place + 1)];
  if (kind !== "tunnel") return [kindOf(kind), names[id] ?? id].filter(Boolean).join(" ");
  const device = details["device"];
  const name = details["name"] ?? id;
  const reached = names[name] ?? name;
  return [
    t`tunnel to ${reached}`,
    typeof device === "string" && t`of ${names[device] ?? device}`,
    details["gateway"] !== undefined && t`at ${details["gateway"]}`,
    details["from"] !== undefined && t`moved from ${details["from"]}`,
  ]
    .filter(Boolean)
    .join(", ");
}
