"""Encrypts the secrets in the database: TOTP secrets and gateways' key-encryption keys."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from culvert_service import private_files

_NONCE = 12


class MasterKeyError(Exception):
    """A secret in the database cannot be decrypted: this state directory belongs to another database."""


class MasterKey:
    """AES-256-GCM. `context` names the secret's place, so that a ciphertext moved to another row does not open."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._aead = AESGCM(key)

    @classmethod
    def load(cls, state_dir: Path) -> MasterKey:
        """Load state_dir/master.key, and create it at first use."""
        return cls(private_files.read_or_make(state_dir / "master.key", lambda: AESGCM.generate_key(256)))

    def password(self, purpose: str) -> str:
        """A password derived from the master key and the purpose: the same at every controller with this key."""
        return base64.urlsafe_b64encode(self.derive(f"password of {purpose}")).decode().rstrip("=")

    def signing_key(self, context: str) -> Ed25519PrivateKey:
        """A signing key derived from the master key and the context: the same at every controller with this key."""
        return Ed25519PrivateKey.from_private_bytes(self.derive(context))

    @property
    def installation(self) -> str:
        """The id of the Culvert whose key this is, in hexadecimal. It tells nothing about the key."""
        return self.derive("id of the installation")[:16].hex()

    def derive(self, context: str) -> bytes:
        """A key of 32 bytes for one purpose, derived from the master key: the same at every controller with this key."""
        return HKDF(hashes.SHA256(), 32, salt=None, info=context.encode()).derive(self._key)

    def seal(self, secret: bytes, context: str) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._aead.encrypt(nonce, secret, context.encode())

    def open(self, ciphertext: bytes, context: str) -> bytes:
        """Raises MasterKeyError."""
        try:
            return self._aead.decrypt(ciphertext[:_NONCE], ciphertext[_NONCE:], context.encode())
        except InvalidTag:
            raise MasterKeyError(f"the secret of {context} does not open with this master key") from None
