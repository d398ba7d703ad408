"""ESP for every suite, straight from the RFCs and with `cryptography`: another implementation than the crate's."""

from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import MD5, SHA1, SHA256, HashAlgorithm
from cryptography.hazmat.primitives.hmac import HMAC


@dataclass(frozen=True)
class Shape:
    """Lengths in bytes."""

    key: int
    salt: int = 0
    integrity: int = 0
    iv: int = 8
    icv: int = 16
    block: int = 4

    @property
    def material(self) -> int:
        return self.key + self.salt + self.integrity


SUITES = {
    "aes-gcm-256": Shape(32, 4),
    "aes-gcm-128": Shape(16, 4),
    "chacha20-poly1305": Shape(32, 4),
    "null-hmac-sha256-128": Shape(0, integrity=32, iv=0),
    "aes-ctr-hmac-md5-96": Shape(16, 4, 16, icv=12),
    "aes-cbc-hmac-sha1-96": Shape(16, integrity=20, iv=16, icv=12, block=16),
    "aes-cbc-hmac-sha256-128": Shape(32, integrity=32, iv=16, block=16),
}


@dataclass(frozen=True)
class Sa:
    suite: str
    spi: int
    key: bytes
    esn: bool = True

    def seal(
        self,
        inner: bytes,
        sequence: int,
        *,
        next_header: int = 4,
        padding: bytes | None = None,
        iv: bytes | None = None,
    ) -> bytes:
        """RFC 4303; the arguments after `sequence` may break its rules."""
        shape = SUITES[self.suite]
        if padding is None:
            padding = bytes(range(1, 1 + -(len(inner) + 2) % shape.block))
        plain = inner + padding + bytes([len(padding), next_header])
        # Any IV does for CBC here: nobody attacks a vector.
        iv = sequence.to_bytes(shape.iv) if iv is None and shape.iv else iv or b""
        head = self.spi.to_bytes(4) + sequence.to_bytes(8)[4:]
        key, salt = self.key[: shape.key], self.key[shape.key : shape.key + shape.salt]
        if not shape.integrity:
            aead = (ChaCha20Poly1305 if self.suite.startswith("chacha") else AESGCM)(key)
            aad = self.spi.to_bytes(4) + sequence.to_bytes(8) if self.esn else head
            return head + iv + aead.encrypt(salt + iv, plain, aad)
        authenticated = head + iv + self._encrypt(key, salt, iv, plain)
        high = sequence.to_bytes(8)[:4] if self.esn else b""
        return authenticated + icv(self.suite, self.key[-shape.integrity :], authenticated + high)

    def _encrypt(self, key: bytes, salt: bytes, iv: bytes, plain: bytes) -> bytes:
        if not key:
            return plain
        mode = modes.CTR(salt + iv + (1).to_bytes(4)) if salt else modes.CBC(iv)
        encryptor = Cipher(algorithms.AES(key), mode).encryptor()
        return encryptor.update(plain) + encryptor.finalize()


def icv(suite: str, key: bytes, authenticated: bytes) -> bytes:
    hashes: dict[str, HashAlgorithm] = {"md5": MD5(), "sha1": SHA1(), "sha256": SHA256()}  # noqa: S303
    name = suite.split("hmac-")[1].split("-")[0]
    mac = HMAC(key, hashes[name])
    mac.update(authenticated)
    return mac.finalize()[: SUITES[suite].icv]
