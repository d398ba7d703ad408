/** Names that a form suggests. */
import { useRef } from "react";

import { DNS_LABEL_MAX } from "../api/contract";

/** The host name of a pasted URL, or of a name with a port or a path; any other text as it is. */
export function hostOf(typed: string): string {
  const url = /^(?:[a-z][a-z0-9+.-]*:\/\/)?(?:[^\s/?#@]*@)?([^\s/?#@:]+)(?::\d+)?(?:[/?#].*)?$/i;
  return url.exec(typed.trim())?.[1] ?? typed;
}

/** A short name made of a full name's first label. */
export function suggestedName(fqdn: string): string {
  return spelled(fqdn.toLowerCase().replace(/^\*\./, "all-").split(".", 1)[0] ?? "", /[^a-z0-9-]/g);
}

/** A login name made of an e-mail address. */
export function suggestedLogin(email: string): string {
  return spelled(email.trim().toLowerCase().split(/[@+]/, 1)[0] ?? "", /[^a-z0-9._-]/g);
}

function spelled(text: string, others: RegExp): string {
  return text
    .replaceAll("ß", "ss")
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .replaceAll(others, "-")
    .replaceAll(/^[._-]+|[._-]+$/g, "")
    .slice(0, DNS_LABEL_MAX);
}

/** Sets `value`, of which the first is a suggestion, to each next one, unless the person has typed another value. */
export function useSuggestion(value: string, set: (value: string) => void): (next: string) => void {
  const last = useRef(value);
  return (next) => {
    if (value === last.current) set(next);
    last.current = next;
  };
}
