/** A notice in words. */
import { t } from "@lingui/core/macro";

import type { Schemas } from "../api/client";
import { sayRole } from "../shared/words";

export type Notice = Schemas["NoticeOut"];

/** `name`: the person who reads it. */
export function said({ action, actor, object, details, source }: Notice, name: string): string {
  const whose = object.slice(object.indexOf("/") + 1);
  const from = source === null ? "" : t`, from ${source}`;
  const detail = (field: string) => String(details[field] ?? "");
  const [before, after, codes] = [detail("from"), detail("to"), detail("codes")];
  const [passkey, issuer, scopes] = [detail("passkey"), detail("issuer"), detail("scopes")];
  const [maker, address] = [detail("made_by"), detail("address")];
  switch (action) {
    case "admin.wrong-codes":
      return whose === name
        ? t`${codes} wrong codes were given with your password, from ${before}. If that was not you, change your password.`
        : t`Wrong codes were given with the password of ${whose}, from ${before}.`;
    case "admin.passkey.add":
      return t`${actor} added the passkey ${passkey} to their account${from}.`;
    case "admin.passkey.remove":
      return t`${actor} removed the passkey ${passkey} from their account${from}.`;
    case "admin.password":
      return t`${actor} changed their password${from}.`;
    case "admin.password.remove":
      return t`${actor} removed their password${from}.`;
    case "admin.authenticator":
      return t`${actor} changed their authenticator${from}.`;
    case "admin.recovery-codes":
      return t`${actor} made new recovery codes${from}.`;
    case "admin.recovery-codes.remove":
      return t`${actor} removed their recovery codes${from}.`;
    case "admin.identity.remove":
      return t`${actor} removed their account at ${issuer}${from}.`;
    case "admin.invite":
      return t`${actor} invited somebody as ${sayRole(whose)}${from}.`;
    case "admin.create":
      return t`${whose} made an account with an invitation${from}.`;
    case "admin.role":
      return t`${actor} changed the role of ${whose} from ${sayRole(before)} to ${sayRole(after)}${from}.`;
    case "admin.delete":
      return t`${actor} deleted the administrator ${whose}${from}.`;
    case "token.create":
      return t`${actor} made the API token ${whose} (${scopes})${from}.`;
    case "gateway.bundle":
      return details.first
        ? t`${actor} took the first bundle of the gateway ${whose}${from}.`
        : t`${actor} took a new bundle, with new keys, of the gateway ${whose}${from}.`;
    case "gateway.enrol":
      return t`${actor} made a link for the gateway ${whose}${from}.`;
    case "gateway.join":
      return t`A computer joined as the gateway ${whose}${from}, with a link by ${maker}.`;
    case "gateway.address":
      return t`The address of the gateway ${whose} has changed from ${address}${from}.`;
    case "gateway.leave":
      return t`The gateway ${whose} left${from}.`;
    default:
      return `${actor}: ${action}, ${object}${from}.`;
  }
}
