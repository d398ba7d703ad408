/** The link that brought the person here: /enroll#TOKEN.FINGERPRINT[.CONTROLLER] (proto/culvert_proto/invitation_link.py). */
const FRAGMENT = /^#([\w-]+)\.([0-9a-f]{64})(?:\.([\w.:[\]-]+))?$/i;

export interface Invitation {
  token: string;
  /** Hexadecimal SHA-256 of the controller's CA. */
  ca: string;
  /** The URL for devices; null if it is the page's. */
  controller: string | null;
}

/** Null if the link has lost its end. */
export function readInvitation(hash: string): Invitation | null {
  const [, token, ca, host] = FRAGMENT.exec(hash) ?? [];
  if (token === undefined || ca === undefined) return null;
  return { token, ca: ca.toLowerCase(), controller: host === undefined ? null : `https://${host}` };
}

/** The same invitation as a link that the desktop hands to Culvert. */
export function desktopLink(origin: string, { token, ca, controller }: Invitation): string {
  const query = new URLSearchParams({ controller: controller ?? origin, token, ca: `sha256:${ca}` });
  return `culvert://enroll?${query.toString()}`;
}
