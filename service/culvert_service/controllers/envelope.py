"""Encryption of calls between controllers and of their answers, which Postgres carries as NOTIFY payloads.

Everything is encrypted under the master key, which is not in the database. An answer may contain SA keys, so it is also
encrypted to an ephemeral key of the caller: a later theft of the master key does not reveal it (forward secrecy).
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from culvert_service.pki.master_key import MasterKey, MasterKeyError

# Postgres's limit.
PAYLOAD_MAX = 7999
_ID, _PUBLIC, _HOLDER, _NUMBER = 16, 32, 16, 8
# Constant, because each answer has its own key.
_NONCE = bytes(12)
_CALL, _DONE, _REFUSED = b"C", b"D", b"R"


class EnvelopeError(Exception):
    """The payload is not from a controller with our master key, not for this one, of another release, or too long."""


@dataclass(frozen=True, slots=True)
class PeerCall:
    """`holder`: the calling controller, to which the answer goes. `number`: counts its calls."""

    id: bytes
    holder: str
    number: int
    public: bytes
    method: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """`done`: the body is the method's result; otherwise it is a culvert.error.v1.Error."""

    id: bytes
    done: bool
    sealed: bytes = field(repr=False)


class Caller:
    """A call of this controller, and the key that decrypts its answer."""

    def __init__(self) -> None:
        self.id = os.urandom(_ID)
        self._private = X25519PrivateKey.generate()

    def call(self, holder: str, number: int, method: str, body: bytes) -> PeerCall:
        return PeerCall(self.id, holder, number, self._private.public_key().public_bytes_raw(), method, body)

    def open(self, answer: Answer) -> bytes:
        """Raises EnvelopeError."""
        theirs = X25519PublicKey.from_public_bytes(answer.sealed[:_PUBLIC])
        aead = _aead(self._private.exchange(theirs), self.id)
        try:
            return aead.decrypt(_NONCE, answer.sealed[_PUBLIC:], _kind(answer))
        except InvalidTag:
            raise EnvelopeError("an answer cannot be decrypted") from None


def answer(call: PeerCall, done: bool, body: bytes) -> Answer:
    ours = X25519PrivateKey.generate()
    aead = _aead(ours.exchange(X25519PublicKey.from_public_bytes(call.public)), call.id)
    kind = _DONE if done else _REFUSED
    return Answer(call.id, done, ours.public_key().public_bytes_raw() + aead.encrypt(_NONCE, body, kind))


def pack(message: PeerCall | Answer, to: str, master_key: MasterKey) -> str:
    """The payload for the controller `to`. Raises EnvelopeError when it is too long."""
    if isinstance(message, PeerCall):
        method = message.method.encode()
        caller = message.holder.encode() + message.number.to_bytes(_NUMBER)
        head = _CALL + message.id + caller + message.public + bytes([len(method)]) + method
        plain = head + message.body
    else:
        plain = _kind(message) + message.id + message.sealed
    payload = base64.b64encode(master_key.seal(plain, _context(to))).decode()
    if len(payload) > PAYLOAD_MAX:
        raise EnvelopeError("the payload is too long for a notification")
    return payload


def unpack(payload: str, to: str, master_key: MasterKey) -> PeerCall | Answer:
    """Raises EnvelopeError."""
    try:
        plain = master_key.open(base64.b64decode(payload, validate=True), _context(to))
    except (MasterKeyError, ValueError):
        raise EnvelopeError("the payload is not from a controller of this database") from None
    kind, call_id, rest = _cut(plain, 1, _ID)
    if kind != _CALL:
        return Answer(call_id, kind == _DONE, rest)
    holder, counted, public, rest = _cut(rest, _HOLDER, _NUMBER, _PUBLIC)
    end = 1 + rest[0]
    return PeerCall(
        call_id, holder.decode(), int.from_bytes(counted), public, rest[1:end].decode(), rest[end:]
    )


def _cut(rest: bytes, *lengths: int) -> list[bytes]:
    parts: list[bytes] = []
    for length in lengths:
        parts.append(rest[:length])
        rest = rest[length:]
    return [*parts, rest]


def _aead(shared: bytes, call_id: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, None, b"culvert answer " + call_id).derive(shared))


def _kind(message: Answer) -> bytes:
    return _DONE if message.done else _REFUSED


def _context(to: str) -> str:
    return f"call to controller {to}"
