/** A notice in words. Pure. */
import type { Schemas } from "../api/client";

export type Notice = Schemas["NoticeOut"];

/** `name`: the person who reads it. */
export function said({ action, actor, object, details, source }: Notice, name: string): string {
  const whose = object.slice(object.indexOf("/") + 1);
  const from = source === null ? "" : `, from ${source}`;
  const detail = (field: string) => String(details[field] ?? "");
  switch (action) {
    case "admin.wrong-codes":
      return whose === name
        ? `${detail("codes")} wrong codes were given with your password, from ${detail("from")}. If that was not you, change your password.`
        : `Wrong codes were given with the password of ${whose}, from ${detail("from")}.`;
    case "admin.passkey.add":
      return `${actor} added the passkey ${detail("passkey")} to their account${from}.`;
    case "admin.passkey.remove":
      return `${actor} removed the passkey ${detail("passkey")} from their account${from}.`;
    case "admin.password":
      return `${actor} changed their password${from}.`;
    case "admin.password.remove":
      return `${actor} removed their password${from}.`;
    case "admin.authenticator":
      return `${actor} changed their authenticator${from}.`;
    case "admin.recovery-codes":
      return `${actor} made new recovery codes${from}.`;
    case "admin.recovery-codes.remove":
      return `${actor} removed their recovery codes${from}.`;
    case "admin.identity.remove":
      return `${actor} removed their account at ${detail("issuer")}${from}.`;
    case "admin.invite":
      return `${actor} invited somebody as ${whose}${from}.`;
    case "admin.create":
      return `${whose} made an account with an invitation${from}.`;
    case "admin.role":
      return `${actor} changed the role of ${whose} from ${detail("from")} to ${detail("to")}${from}.`;
    case "admin.delete":
      return `${actor} deleted the administrator ${whose}${from}.`;
    case "token.create":
      return `${actor} made the API token ${whose} (${detail("scopes")})${from}.`;
    case "gateway.bundle":
      return details.first
        ? `${actor} took the first bundle of the gateway ${whose}${from}.`
        : `${actor} took a new bundle, with new keys, of the gateway ${whose}${from}.`;
    case "gateway.enrol":
      return `${actor} made a link for the gateway ${whose}${from}.`;
    case "gateway.join":
      return `A computer joined as the gateway ${whose}${from}, with a link by ${detail("made_by")}.`;
    case "gateway.address":
      return `The address of the gateway ${whose} has changed from ${detail("address")}${from}.`;
    case "gateway.leave":
      return `The gateway ${whose} left${from}.`;
    default:
      return `${actor}: ${action}, ${object}${from}.`;
  }
}
