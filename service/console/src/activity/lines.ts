/** A line of the audit log in words. Pure. */
import { i18n, type MessageDescriptor } from "@lingui/core";
import { msg, plural, t } from "@lingui/core/macro";

import { sayRole } from "../shared/words";
import type { Line } from "./queries";

type About = Pick<Line, "object" | "details" | "names">;

const KINDS: Readonly<Record<string, MessageDescriptor>> = {
  admin: msg`administrator`,
  assertion: msg`assertion`,
  audit: msg`log`,
  ca: msg`certificate authority`,
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
  tunnel: msg`tunnel`,
  user: msg`person`,
  zone: msg`zone`,
};

/** Each act that the log names, in words that follow the kind of its object. */
const ACTS: Readonly<Record<string, MessageDescriptor>> = {
  "tunnel.open": msg`asked for`,
  "tunnel.close": msg`closed`,
  "tunnel.activate": msg`keys used`,
  "tunnel.renew": msg`renewed`,
  "device.enrol": msg`enrolled`,
  "device.approve": msg`approved`,
  "device.unapprove": msg`approval withdrawn`,
  "device.revoke": msg`revoked`,
  "device.leave": msg`left`,
  "device.renew": msg`renewed`,
  "device.renew-late": msg`renewed after its end`,
  "device.prove": msg`code given`,
  "device.authenticator": msg`new authenticator`,
  "device.watch": msg`connected`,
  "device.call": msg`calls`,
  "user.create": msg`added`,
  "user.change": msg`changed`,
  "user.delete": msg`deleted`,
  "user.invite": msg`invited`,
  "user.withdraw-invitation": msg`invitation withdrawn`,
  "group.create": msg`added`,
  "group.replace": msg`changed`,
  "group.delete": msg`deleted`,
  "group.members": msg`members changed`,
  "group.add": msg`member added`,
  "group.remove": msg`member removed`,
  "policy.create": msg`added`,
  "policy.replace": msg`changed`,
  "policy.delete": msg`deleted`,
  "assertion.create": msg`added`,
  "assertion.delete": msg`deleted`,
  "resource.create": msg`added`,
  "resource.replace": msg`changed`,
  "resource.delete": msg`deleted`,
  "zone.create": msg`added`,
  "zone.replace": msg`changed`,
  "zone.delete": msg`deleted`,
  "zone.check": msg`checked`,
  "zone.denial-page": msg`page for denied names changed`,
  "gateway.create": msg`added`,
  "gateway.replace": msg`changed`,
  "gateway.delete": msg`deleted`,
  "gateway.enrol": msg`link made`,
  "gateway.withdraw-enrolment": msg`link withdrawn`,
  "gateway.join": msg`joined`,
  "gateway.leave": msg`left`,
  "gateway.bundle": msg`bundle taken`,
  "gateway.renew": msg`renewed`,
  "gateway.drain": msg`drained`,
  "gateway.undrain": msg`in use again`,
  "gateway.address": msg`address changed`,
  "gateway.neighbours": msg`neighbours found`,
  "gateway.restore": msg`tunnels written again`,
  "gateway.report": msg`reports`,
  "gateway.state": msg`state read`,
  "gateway.reader": msg`certificate for reading made`,
  "site-tunnel.create": msg`added`,
  "site-tunnel.change": msg`changed`,
  "site-tunnel.delete": msg`deleted`,
  "site-tunnel.up": msg`opened`,
  "site-tunnel.down": msg`closed`,
  "site-tunnel.follow": msg`a gateway’s change followed`,
  "admin.sign-in": msg`signed in`,
  "admin.sign-out": msg`signed out`,
  "admin.proof": msg`identity confirmed`,
  "admin.wrong-codes": msg`wrong codes`,
  "admin.create": msg`account made`,
  "admin.invite": msg`invited`,
  "admin.role": msg`role changed`,
  "admin.password": msg`password changed`,
  "admin.authenticator": msg`new authenticator`,
  "admin.recovery-codes": msg`recovery codes changed`,
  "admin.delete": msg`deleted`,
  "token.create": msg`added`,
  "token.delete": msg`deleted`,
  "ca.rotate": msg`replaced`,
  "controller.restore": msg`restored from a backup`,
  "audit.cut": msg`old lines removed`,
  "audit.left-out": msg`denials left out`,
};

/** A kind of objects, in words; as the log names it if it is new. */
function kindOf(kind: string): string {
  const known = KINDS[kind];
  return known ? i18n._(known) : kind;
}

/** "laptop of alice" for a device that is there still, else its id. */
export function actorOf({ actor, names }: Pick<Line, "actor" | "names">): string {
  return names[actor] ?? (actor === "unknown" ? t`somebody with a link` : actor);
}

/** "tunnel to wiki.corp.example, of laptop of alice, at gw-berlin"; "device laptop of alice"; "resource wiki". */
export function objectOf({ object, details, names }: About): string {
  const place = object.indexOf("/");
  const [kind, id] = place < 0 ? [object, ""] : [object.slice(0, place), object.slice(place + 1)];
  // The name of a policy is free text, as the sentence around it.
  if (kind === "policy") return t`policy “${id}”`;
  if (kind === "role") return `${kindOf(kind)} ${sayRole(id)}`;
  if (kind !== "tunnel") return [kindOf(kind), names[object] ?? names[id] ?? id].filter(Boolean).join(" ");
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

/** "resource: changed"; the log's own word for an act that is new. */
export function actOf(action: string): string {
  const known = ACTS[action];
  return known ? `${kindOf(kindIn(action))}: ${i18n._(known)}` : action;
}

/** All acts to choose from, by the kind of their object. */
export const listActs = () =>
  [...new Set(Object.keys(ACTS).map(kindIn))].map((kind) => ({
    group: kindOf(kind),
    items: Object.keys(ACTS)
      .filter((act) => kindIn(act) === kind)
      .map((value) => ({ value, label: actOf(value) })),
  }));

const DENIALS: Readonly<Record<string, MessageDescriptor>> = {
  NO_POLICY: msg`no policy`,
  NAME_UNKNOWN: msg`unknown name`,
  NAME_NOT_OFFERED: msg`name not offered`,
  CODE_NEEDED: msg`code needed`,
  CODE_EXPIRED: msg`code ended`,
  CODE_TOO_OLD: msg`code too old`,
  OUTSIDE_HOURS: msg`outside the hours`,
  SOURCE_NOT_ALLOWED: msg`address not allowed`,
  POSTURE_NOT_MET: msg`facts not met`,
  DEVICE_NOT_APPROVED: msg`device not approved`,
  DEVICE_REVOKED: msg`device revoked`,
  GATEWAY_DOWN: msg`gateway offline`,
  GATEWAY_DRAINING: msg`gateway draining`,
  POOL_EXHAUSTED: msg`no free address`,
  ADDRESS_COLLISION: msg`address collision`,
  CONSENT_NEEDED: msg`the person has not agreed`,
  DATAPATH_FAILED: msg`fault of the computer`,
};
const SIGN_INS: Readonly<Record<string, MessageDescriptor>> = {
  CODE_WRONG: msg`wrong code`,
  CODE_USED: msg`code used before`,
  CODE_LOCKED: msg`codes locked`,
  INVITATION_INVALID: msg`invitation not valid`,
  CERTIFICATE_UNKNOWN: msg`unknown certificate`,
  SIGN_IN_WRONG: msg`wrong name, password or code`,
  PROOF_WRONG: msg`wrong password or code`,
  SIGN_IN_LOCKED: msg`sign-in locked`,
  PASSKEY_REFUSED: msg`passkey refused`,
  OIDC_REFUSED: msg`identity provider refused`,
  OIDC_UNKNOWN: msg`not known to the identity provider`,
  ADMIN_TOKEN_INVALID: msg`API token not valid`,
  NOT_PERMITTED: msg`not permitted`,
};
const CLOSINGS: Readonly<Record<string, MessageDescriptor>> = {
  CLOSED_BY_USER: msg`by the person`,
  CLOSED_BY_ADMIN: msg`by an administrator`,
  CLOSED_IDLE: msg`idle`,
  DAEMON_STOPPED: msg`Culvert stopped`,
  TUNNEL_OUTDATED: msg`after a change`,
  SA_LOST: msg`keys lost at the gateway`,
  PEER_SILENT: msg`device silent`,
};

/** The reasons of a line by which the log can be filtered. `chosen`: a reason that stands in the address. */
export function listReasons(chosen: string | undefined) {
  const groups: [string, Readonly<Record<string, MessageDescriptor>>][] = [
    [t`A name denied`, DENIALS],
    [t`A sign-in or a call denied`, SIGN_INS],
    [t`A tunnel closed`, CLOSINGS],
  ];
  const isListed = chosen === undefined || groups.some(([, reasons]) => chosen in reasons);
  return [
    ...groups.map(([group, reasons]) => ({
      group,
      items: Object.entries(reasons).map(([value, label]) => ({ value, label: i18n._(label) })),
    })),
    // Any other reason is shown as the log has it.
    ...(isListed ? [] : [{ group: t`Other`, items: [{ value: chosen, label: chosen }] }]),
  ];
}

const kindIn = (action: string): string => action.split(".")[0] ?? "";

const leftOut = (count: number): string =>
  plural(count, {
    one: "# more denial of the same callers has no line of its own",
    other: "# more denials of the same callers have no line of their own",
  });

/** The access check's question about a name that a person's device was denied, at that time; null for any other line. */
export function questionOf({
  at,
  action,
  outcome,
  object,
  details: { user },
}: Pick<Line, "at" | "action" | "outcome" | "object" | "details">): {
  user: string;
  name: string;
  at: string;
} | null {
  const name = /^name\/(.+)/.exec(object)?.[1];
  if (action !== "tunnel.open" || outcome !== "denied" || name === undefined) return null;
  return typeof user === "string" ? { user, name, at } : null;
}

const FIELDS: Readonly<Record<string, MessageDescriptor>> = {
  name: msg`name`,
  for: msg`group or person`,
  resources: msg`resources`,
  conditions: msg`conditions`,
};

/** "olga turned policy “…” off"; "olga changed policy “…”: conditions, turned on". */
function changeOf(who: string, what: string, { changed, enabled }: Line["details"]): string {
  const fields = typeof changed === "string" ? changed.split(" ").filter(Boolean) : [];
  const isOn = enabled === "yes";
  if (fields.length === 0) return t`${who} changed ${what}`;
  if (fields.length === 1 && fields[0] === "enabled")
    return isOn ? t`${who} turned ${what} on` : t`${who} turned ${what} off`;
  const parts = fields
    .map((field) => {
      if (field === "enabled") return isOn ? t`turned on` : t`turned off`;
      const known = FIELDS[field];
      return known ? i18n._(known) : field;
    })
    .join(", ");
  return t`${who} changed ${what}: ${parts}`;
}

/** "laptop of alice opened wiki.corp.example through gw-berlin"; "olga: gateway gw-paris, drained" for a rarer act. */
export function sentenceOf(line: Pick<Line, "actor" | "action" | "outcome"> & About): string {
  const [who, what, { details, names }] = [actorOf(line), objectOf(line), line];
  const told = (name: string) => String(names[String(details[name])] ?? details[name] ?? "");
  const [name, gateway, from] = [told("name"), told("gateway"), told("from")];
  const device = told("device");
  const user = names[`user/${String(details["user"])}`] ?? told("user");
  const known = ACTS[line.action];
  const done = known ? i18n._(known) : line.action;
  if (line.action === "audit.left-out") return leftOut(Number(details["left_out"]));
  const id = line.object.slice(line.object.indexOf("/") + 1);
  if (line.outcome === "denied") {
    const denied = names[id] ?? id;
    if (line.action === "tunnel.open") return t`${who} was denied ${denied}`;
    if (line.action === "admin.sign-in") return t`A sign-in as ${id} was denied`;
    return t`${who} was denied: ${what}, ${done}`;
  }
  switch (line.action) {
    case "admin.create":
      return t`${id} made an account with an invitation`;
    case "tunnel.open":
      return from
        ? t`${who} moved from ${from} to ${gateway} with ${name}`
        : t`${who} opened ${name} through ${gateway}`;
    case "tunnel.close":
      return t`The tunnel of ${device} to ${name} was closed`;
    case "admin.sign-in":
      return t`${who} signed in`;
    case "admin.sign-out":
      return t`${who} signed out`;
    case "policy.replace":
      return changeOf(who, what, details);
    case "group.add":
      return t`${who} added ${user} to the ${what}`;
    case "group.remove":
      return t`${who} removed ${user} from the ${what}`;
  }
  switch (line.action.split(".")[1]) {
    case "create":
      return t`${who} added ${what}`;
    case "change":
    case "replace":
      return t`${who} changed ${what}`;
    case "delete":
      return t`${who} deleted ${what}`;
    case "approve":
      return t`${who} approved ${what}`;
    case "revoke":
      return t`${who} revoked ${what}`;
    case "invite":
      return t`${who} invited ${what}`;
    default:
      return line.object.endsWith(`/${line.actor}`) ? `${who}: ${done}` : `${who}: ${what}, ${done}`;
  }
}
