"""scapy's ESP as the second implementation: each opens what the other seals, for every suite that scapy has."""

from dataclasses import dataclass
from typing import Any, cast

import pytest
from culvert_ipsec.esp import EspError, Inbound, Outbound
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation

SPI = 0x12345678
OUTER = IP(src="203.0.113.10", dst="198.51.100.2")
INNER = {
    4: bytes(IP(src="10.99.0.2", dst="10.20.0.10") / ICMP() / b"ping"),
    6: bytes(IPv6(src="fd00::2", dst="fd00::a") / ICMPv6EchoRequest() / b"ping"),
}


@dataclass(frozen=True)
class Suite:
    """scapy's names, and how many bytes of key material go to the cipher (with its salt) and to the HMAC."""

    name: str
    cipher: str
    cipher_key: int
    auth: str | None = None
    auth_key: int = 0

    @property
    def key(self) -> bytes:
        return bytes(range(self.cipher_key + self.auth_key))


SUITES = [
    Suite("aes-gcm-256", "AES-GCM", 36),
    Suite("aes-gcm-128", "AES-GCM", 20),
    Suite("chacha20-poly1305", "CHACHA20-POLY1305", 36),
    Suite("null-hmac-sha256-128", "NULL", 0, "SHA2-256-128", 32),
    Suite("aes-ctr-hmac-md5-96", "AES-CTR", 20, "HMAC-MD5-96", 16),
    Suite("aes-cbc-hmac-sha1-96", "AES-CBC", 16, "HMAC-SHA1-96", 20),
    Suite("aes-cbc-hmac-sha256-128", "AES-CBC", 32, "SHA2-256-128", 32),
]
suites = st.sampled_from(SUITES)
versions = st.sampled_from([4, 6])
numbers = st.integers(1, 2**64 - 2) | st.integers(2**32 - 3, 2**32 + 3)


def scapy_sa(suite: Suite, esn: bool, sequence: int) -> Any:
    cipher_key, auth_key = suite.key[: suite.cipher_key], suite.key[suite.cipher_key :]
    return SecurityAssociation(
        cast(Any, ESP), spi=SPI, crypt_algo=suite.cipher, crypt_key=cipher_key, auth_algo=suite.auth,
        auth_key=auth_key or None, tunnel_header=OUTER, esn_en=esn, esn=sequence >> 32, seq_num=sequence & 0xFFFFFFFF,
    )  # fmt: skip


def in_range(sequence: int, esn: bool) -> int:
    return sequence if esn else sequence % (2**32 - 1) + 1


@given(suites, st.booleans(), numbers, versions)
def test_scapy_opens_what_we_seal(suite: Suite, esn: bool, sequence: int, version: int) -> None:
    sequence = in_range(sequence, esn)
    outbound = Outbound(SPI, suite.name, suite.key, esn, allow_legacy=True, after=sequence - 1)
    received = OUTER / cast(Any, ESP)(outbound.seal(INNER[version]))
    received.proto = 50
    assert bytes(scapy_sa(suite, esn, sequence).decrypt(received)) == INNER[version]


@given(suites, st.booleans(), numbers, versions, st.binary(min_size=16, max_size=16))
def test_we_open_what_scapy_seals(suite: Suite, esn: bool, sequence: int, version: int, iv: bytes) -> None:
    sequence = in_range(sequence, esn)
    iv_length = {"NULL": 0, "AES-CBC": 16}.get(suite.cipher, 8)
    inner = IP(INNER[4]) if version == 4 else IPv6(INNER[6])
    packet = bytes(scapy_sa(suite, esn, sequence).encrypt(inner, iv=iv[:iv_length])[ESP])
    inbound = Inbound(SPI, suite.name, suite.key, esn, allow_legacy=True, after=sequence - 1)
    assert inbound.open(packet) == INNER[version]
    with pytest.raises(EspError) as refused:
        inbound.open(packet)
    assert refused.value.cause == "replay"


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_another_high_half_fails(suite: Suite) -> None:
    packet = bytes(scapy_sa(suite, True, 5 + 2**32).encrypt(IP(INNER[4]) / UDP())[ESP])
    with pytest.raises(EspError) as refused:
        Inbound(SPI, suite.name, suite.key, allow_legacy=True).open(packet)
    assert refused.value.cause == "icv"
    Inbound(SPI, suite.name, suite.key, allow_legacy=True, after=2**32).open(packet)
