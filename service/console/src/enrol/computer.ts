/** The kind of the computer that shows the page, as far as its browser tells. */
export type ComputerKind = "linux" | "phone" | "other";

/** `platform` and `mobile`: of `navigator.userAgentData`, where the browser has it. */
export function computerKind(userAgent: string, platform?: string, mobile?: boolean): ComputerKind {
  if (mobile === true || /Android|iPhone|iPad|Mobile/.test(userAgent)) return "phone";
  const name = platform !== undefined && platform !== "" ? platform : userAgent;
  return /Linux|X11/.test(name) && !/CrOS|Chrome OS/.test(name) ? "linux" : "other";
}

export function thisComputer(): ComputerKind {
  const { userAgentData } = navigator as { userAgentData?: { platform: string; mobile: boolean } };
  return computerKind(navigator.userAgent, userAgentData?.platform, userAgentData?.mobile);
}
