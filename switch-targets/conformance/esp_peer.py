"""scapy's ESP (RFC 4303), the independent far end of a tunnel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation, _ESPPlain  # type: ignore[attr-defined]
from scapy.packet import Packet


@dataclass(frozen=True)
class Suite:
    """scapy's names, and how many bytes of key material go to the cipher (with its salt) and to the HMAC."""

    number: int
    name: str
    cipher: str
    cipher_key: int
    auth: str | None = None
    auth_key: int = 0

    @property
    def key_len(self) -> int:
        return self.cipher_key + self.auth_key


AES_GCM_256 = Suite(1, "aes-gcm-256", "AES-GCM", 36)
MODERN = [
    AES_GCM_256,
    Suite(2, "aes-gcm-128", "AES-GCM", 20),
    Suite(3, "chacha20-poly1305", "CHACHA20-POLY1305", 36),
]
LEGACY = [
    Suite(129, "null-hmac-sha256-128", "NULL", 0, "SHA2-256-128", 32),
    Suite(130, "aes-ctr-hmac-md5-96", "AES-CTR", 20, "HMAC-MD5-96", 16),
    Suite(131, "aes-cbc-hmac-sha1-96", "AES-CBC", 16, "HMAC-SHA1-96", 20),
    Suite(132, "aes-cbc-hmac-sha256-128", "AES-CBC", 32, "SHA2-256-128", 32),
]
_OUTER = IP(src="192.0.2.1", dst="192.0.2.2")


@dataclass(frozen=True)
class Association:
    """An SA, in one direction."""

    suite: Suite
    key: bytes
    spi: int
    esn: bool = True

    def _scapy(self, sequence: int) -> Any:
        cipher, auth = self.key[: self.suite.cipher_key], self.key[self.suite.cipher_key :]
        return SecurityAssociation(
            cast(Any, ESP), spi=self.spi, crypt_algo=self.suite.cipher, crypt_key=cipher, auth_algo=self.suite.auth,
            auth_key=auth or None, tunnel_header=_OUTER, esn_en=self.esn, esn=sequence >> 32,
            seq_num=sequence & 0xFFFFFFFF,
        )  # fmt: skip

    def seal(self, inner: Packet, sequence: int) -> bytes:
        """The ESP packet from its SPI on."""
        return bytes(self._scapy(sequence).encrypt(inner)[ESP])

    def seal_bytes(self, content: bytes, next_header: int, sequence: int) -> bytes:
        """Seal bytes that need not be a packet. A dummy's next header is 59 (RFC 4303 section 2.6)."""
        scapy = self._scapy(sequence)
        iv = scapy.crypt_algo.generate_iv()
        plain = _ESPPlain(spi=self.spi, seq=scapy.seq_num, iv=iv, nh=next_header, data=content)
        keys = {"esn_en": self.esn, "esn": scapy.esn}
        sealed = scapy.crypt_algo.encrypt(scapy, scapy.crypt_algo.pad(plain), scapy.crypt_key, None, **keys)
        scapy.auth_algo.sign(sealed, scapy.auth_key, **keys)
        return bytes(sealed)

    def open(self, esp: bytes, high: int = 0) -> Packet:
        """The inner packet. `high`: the upper half of an extended sequence number.

        # Errors
        scapy's IPSecIntegrityError."""
        received = _OUTER / cast(Any, ESP)(esp)
        received.proto = 50
        inner = bytes(self._scapy(high << 32 | 1).decrypt(received))
        return IP(inner) if inner[0] >> 4 == 4 else IPv6(inner)
