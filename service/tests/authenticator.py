"""An authenticator of WebAuthn, as a browser's page sees it: makes a passkey, and signs with it."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import struct
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from webauthn.helpers import encode_cbor

# https://www.w3.org/TR/webauthn-3/, section 6.1: user present, user verified, attested credential data follows.
_PRESENT, _VERIFIED, _ATTESTED = 0x01, 0x04, 0x40


class Authenticator:
    """`verifies` is whether it looks who its user is. One passkey, ES256."""

    def __init__(self, origin: str, *, verifies: bool = True) -> None:
        self.origin = origin
        self.verifies = verifies
        self.count = 0
        self._id = secrets.token_bytes(32)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._user = b""

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        self._user = _decoded(options["user"]["id"])
        public = self._key.public_key().public_numbers()
        # RFC 9053 section 7.1.1.
        cose = {1: 2, 3: -7, -1: 1, -2: public.x.to_bytes(32, "big"), -3: public.y.to_bytes(32, "big")}
        attested = bytes(16) + struct.pack(">H", len(self._id)) + self._id + encode_cbor(cose)
        data = self._data(options["rp"]["id"], _ATTESTED) + attested
        attestation = encode_cbor({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", options["challenge"])
        return self._credential({"clientDataJSON": client, "attestationObject": attestation})

    def get(self, options: dict[str, Any]) -> dict[str, Any]:
        self.count += 1
        data = self._data(options["rpId"], 0)
        client = self._client("webauthn.get", options["challenge"])
        signature = self._key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        answer = {"clientDataJSON": client, "authenticatorData": data, "signature": signature}
        return self._credential(answer | {"userHandle": self._user})

    def _data(self, rp_id: str, flags: int) -> bytes:
        flags |= _PRESENT | (_VERIFIED if self.verifies else 0)
        return hashlib.sha256(rp_id.encode()).digest() + struct.pack(">BI", flags, self.count)

    def _client(self, kind: str, challenge: str) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()

    def _credential(self, answer: dict[str, bytes]) -> dict[str, Any]:
        response = {name: _encoded(value) for name, value in answer.items()}
        whose = _encoded(self._id)
        return {"id": whose, "rawId": whose, "type": "public-key", "response": response}


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _decoded(value: str) -> bytes:
    return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
