/** Matters that wait for an administrator, most urgent first. Pure. */
import { plural, t } from "@lingui/core/macro";

import type { Schemas } from "../api/client";
import type { Gateway, Zone } from "../live/live";
import { day, sayCertificate } from "../shared/words";

export interface Need {
  key: string;
  words: string;
  /** Something does not work now, or will soon. */
  isUrgent: boolean;
  to:
    | { to: "/devices"; search: { state: "pending" } }
    | { to: "/activity"; search: { action: "tunnel.open"; outcome: "denied"; from: string } }
    | { to: "/gateways/of/$name"; params: { name: string } }
    | { to: "/gateways" }
    | { to: "/settings"; search: { part: "controller" } }
    | { to: "/assertions" }
    | { to: "/policies"; search: { use: "unused" } }
    | { to: "/dns" };
}

export interface Known {
  /** Devices that wait for approval. */
  pending: Some;
  deniedToday: number;
  gateways: readonly Gateway[];
  zones: readonly Zone[];
  certificates: readonly Schemas["CertificateOut"][];
  /** Assertions about access that do not hold. */
  broken: number;
  /** Policies that nobody has used for 90 days. */
  unused: Some;
}

/** `isMore`: the controller has others. */
interface Some {
  count: number;
  isMore: boolean;
}

const DAY_MS = 86_400_000;
// As the controller's alert. An authority is replaced over months, because each device has to renew first.
const GATEWAY_DAYS = 30;
const CA_DAYS = 90;
const FAILED: readonly Zone["state"][] = ["refused", "foreign", "occluded", "unreachable"];

/** `now` in milliseconds. */
export function needsOf(known: Known, now: number): Need[] {
  const ends = (at: string, days: number) => Date.parse(at) - now < days * DAY_MS;
  const found: Need[] = [];
  for (const { name, keys } of known.gateways) {
    const end = keys.certificate_expires_at;
    if (end === null || !ends(end, GATEWAY_DAYS)) continue;
    const until = day(end);
    found.push({
      key: `certificate/${name}`,
      words:
        Date.parse(end) < now
          ? t`The certificate of ${name} ended on ${until}`
          : t`The certificate of ${name} ends on ${until}`,
      isUrgent: true,
      to: { to: "/gateways/of/$name", params: { name } },
    });
  }
  for (const { name, kind, expires_at } of known.certificates) {
    if (kind !== "ca" || !ends(expires_at, CA_DAYS)) continue;
    const until = day(expires_at);
    const authority = sayCertificate(name);
    found.push({
      key: `ca/${name}`,
      words: t`The authority “${authority}” ends on ${until}`,
      isUrgent: true,
      to: { to: "/settings", search: { part: "controller" } },
    });
  }
  for (const { name, display_name: zone, state, message } of known.zones) {
    if (!FAILED.includes(state)) continue;
    found.push({
      key: `zone/${name}`,
      words: message ?? t`Records of ${zone} are not live`,
      isUrgent: true,
      to: { to: "/dns" },
    });
  }
  const old = known.gateways.filter(({ is_outdated }) => is_outdated);
  const [first, ...others] = old;
  if (first !== undefined) {
    const name = first.name;
    const software = first.software ?? "";
    found.push({
      key: "upgrade",
      words:
        others.length === 0
          ? t`${name} runs version ${software}, which is older than the controller’s`
          : plural(old.length, {
              other: "# gateways to upgrade: their version is older than the controller’s",
            }),
      isUrgent: false,
      to: others.length === 0 ? { to: "/gateways/of/$name", params: { name } } : { to: "/gateways" },
    });
  }
  if (known.broken > 0)
    found.push({
      key: "assertions",
      words: plural(known.broken, { one: "# assertion does not hold", other: "# assertions do not hold" }),
      isUrgent: true,
      to: { to: "/assertions" },
    });
  const { count, isMore } = known.pending;
  if (count > 0)
    found.push({
      key: "pending",
      words: isMore
        ? t`More than ${count} devices wait for approval`
        : plural(count, { one: "# device waits for approval", other: "# devices wait for approval" }),
      isUrgent: false,
      to: { to: "/devices", search: { state: "pending" } },
    });
  if (known.deniedToday > 0)
    found.push({
      key: "denied",
      words: plural(known.deniedToday, { one: "# denial today", other: "# denials today" }),
      isUrgent: false,
      // The lines that the controller counts.
      to: { to: "/activity", search: { action: "tunnel.open", outcome: "denied", from: localDay(now) } },
    });
  const { unused } = known;
  if (unused.count > 0)
    found.push({
      key: "unused",
      words: unused.isMore
        ? t`More than ${unused.count} policies that nobody has used for 90 days`
        : plural(unused.count, {
            one: "# policy that nobody has used for 90 days",
            other: "# policies that nobody has used for 90 days",
          }),
      isUrgent: false,
      to: { to: "/policies", search: { use: "unused" } },
    });
  return found;
}

/** As "2026-11-27". */
function localDay(now: number): string {
  const at = new Date(now);
  return [at.getFullYear(), at.getMonth() + 1, at.getDate()]
    .map((part) => String(part).padStart(2, "0"))
    .join("-");
}

/** Refusals since midnight in the browser's time zone. */
export function deniedSince(hours: readonly Schemas["HourOut"][], now: number): number {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  return hours.filter(({ at }) => Date.parse(at) >= midnight).reduce((sum, { denied }) => sum + denied, 0);
}
