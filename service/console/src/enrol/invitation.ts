/** The link that brought the person here: /enroll#TOKEN.FINGERPRINT (proto/culvert_proto/invitation_link.py). */
const FRAGMENT = /^#([\w-]+)\.([0-9a-f]{64})$/i;

export interface Invitation {
  token: string;
  /** Hexadecimal SHA-256 of the controller's CA. */
  ca: string;
}

/** Null if the link has lost its end. */
export function readInvitation(hash: string): Invitation | null {
  const [, token, ca] = FRAGMENT.exec(hash) ?? [];
  return token === undefined || ca === undefined ? null : { token, ca: ca.toLowerCase() };
}

/** The same invitation as a link that the desktop hands to Culvert. */
export function desktopLink(origin: string, { token, ca }: Invitation): string {
  const query = new URLSearchParams({ controller: origin, token, ca: `sha256:${ca}` });
  return `culvert://enroll?${query.toString()}`;
}
