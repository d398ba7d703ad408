/** A new gateway's way from its link to online. Pure. */
import { plural, t } from "@lingui/core/macro";
import type { Schemas } from "../api/client";
import type { Gateway } from "../live/live";

export type Progress = "waiting" | "joined" | "online" | "expired";

/** Quoted, because a shell takes # after a space for a comment, and a link may stand alone in a line that is edited. */
export const commandOf = (link: string): string =>
  `apt install ./culvert-gateway_*.deb && culvert-gateway join '${link}'`;

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
