/** Passkeys, as browsers make and use them (WebAuthn). */
import { api, body } from "../api/client";

/** Browsers support passkeys for names, not for IP addresses. */
export const canUsePasskeys = (): boolean =>
  typeof PublicKeyCredential !== "undefined" &&
  "parseRequestOptionsFromJSON" in PublicKeyCredential &&
  !/^[\d.]+$|:/.test(window.location.hostname);

/** The browser gave no passkey: the person closed its dialog, or the authenticator has none to give. */
export const isBrokenOff = (error: unknown): boolean => error instanceof DOMException;

export async function addPasskey(name: string) {
  const options = body(await api.POST("/api/v1/session/passkeys/options"));
  const made = await navigator.credentials.create({
    publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(
      options as unknown as PublicKeyCredentialCreationOptionsJSON,
    ),
  });
  return body(await api.POST("/api/v1/session/passkeys", { body: { name, credential: asJson(made) } }));
}

export async function signInByPasskey() {
  return body(await api.POST("/api/v1/session/passkey", { body: await usedPasskey() }));
}

export async function proveByPasskey() {
  return body(await api.POST("/api/v1/session/proof/passkey", { body: await usedPasskey() }));
}

async function usedPasskey() {
  const options = body(await api.POST("/api/v1/session/passkey/options"));
  const given = await navigator.credentials.get({
    publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(
      options as unknown as PublicKeyCredentialRequestOptionsJSON,
    ),
  });
  return { credential: asJson(given) };
}

function asJson(credential: Credential | null): Record<string, unknown> {
  if (!(credential instanceof PublicKeyCredential))
    throw new DOMException("none was given", "NotAllowedError");
  return { ...credential.toJSON() };
}
