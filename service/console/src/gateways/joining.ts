/** A new gateway's way from its link to online. Pure. */
import { plural, t } from "@lingui/core/macro";
import type { Schemas } from "../api/client";
import type { Gateway } from "../live/live";

export type Progress = "waiting" | "joined" | "online" | "expired";

/** The parts of a computer’s place that `join` cannot find out itself, as typed. */
export type Placement = { publicAddress: string; beside: string; masquerade: boolean };

const PUBLIC_ADDRESS = /^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$/;
// A name that Linux gives to an interface, and a shell leaves as it is.
const INTERFACE = /^\w[\w.@-]{0,14}$/;

export function placementFaults({
  publicAddress,
  beside,
}: Placement): Partial<Record<keyof Placement, string>> {
  return {
    ...(publicAddress !== "" && !PUBLIC_ADDRESS.test(publicAddress)
      ? { publicAddress: t`Must be an IPv4 address such as 203.0.113.7` }
      : {}),
    ...(beside !== "" && !INTERFACE.test(beside)
      ? { beside: t`Must be an interface’s name such as eth0` }
      : {}),
  };
}

/** The systems for which a release has packages, by the tags that end the packages' versions. */
export const SYSTEMS = { deb12: "Debian 12", deb13: "Debian 13", "ubuntu24.04": "Ubuntu 24.04" };
export type System = keyof typeof SYSTEMS;

export const copyCommand = (system: System): string => t`scp culvert-gateway_*~${system}_*.deb USER@ADDRESS:`;

/**
 * The command that joins; without `isInstalled` it installs the package first, from a file. The link is quoted, because a
 * shell takes # after a space for a comment, and a link may stand alone in a line that is edited.
 */
export function commandOf(link: string, placement: Placement, isInstalled: boolean): string {
  const faults = placementFaults(placement);
  const { publicAddress, beside, masquerade } = placement;
  const options = [
    ...(publicAddress !== "" && !faults.publicAddress ? [`--public-address ${publicAddress}`] : []),
    ...(beside !== "" && !faults.beside ? [`--beside ${beside}`] : []),
    ...(masquerade ? ["--masquerade"] : []),
  ];
  const install = isInstalled ? [] : ["apt install ./culvert-gateway_*.deb &&"];
  return [...install, "culvert-gateway join", ...options, `'${link}'`].join(" ");
}

/** `now` in milliseconds. An expired link is seen before the controller is asked again. */
export function progressOf(
  enrolment: Pick<Schemas["GatewayEnrolmentOut"], "state" | "expires_at">,
  gateway: Pick<Gateway, "state" | "reason"> | undefined,
  now: number,
): { state: Progress; words: string } {
  const left = Date.parse(enrolment.expires_at) - now;
  if (enrolment.state === "joined") {
    if (gateway?.state === "online")
      return { state: "online", words: t`The controller has written its tables` };
    return { state: "joined", words: gateway?.reason ? t`Not yet: ${gateway.reason}` : t`Not yet connected` };
  }
  if (enrolment.state === "expired" || left <= 0)
    return { state: "expired", words: t`A link is good for one hour` };
  const minutes = Math.ceil(left / 60_000);
  return {
    state: "waiting",
    words: plural(minutes, {
      one: "The link is good for # more minute",
      other: "The link is good for # more minutes",
    }),
  };
}
