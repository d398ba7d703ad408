"""scapy's ESP as the second implementation: each opens what the other seals."""

from typing import Any, cast

import pytest
from culvert_ipsec._native import Opener, Sealer
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation

SPI = 0x12345678
KEY = bytes(range(36))
OUTER = IP(src="203.0.113.10", dst="198.51.100.2")
INNER = {
    4: bytes(IP(src="10.99.0.2", dst="10.20.0.10") / ICMP() / b"ping"),
    6: bytes(IPv6(src="fd00::2", dst="fd00::a") / ICMPv6EchoRequest() / b"ping"),
}
numbers = st.integers(1, 2**64 - 2) | st.integers(2**32 - 3, 2**32 + 3)


def scapy_sa(sequence: int) -> Any:
    return SecurityAssociation(
        cast(Any, ESP), spi=SPI, crypt_algo="AES-GCM", crypt_key=KEY, tunnel_header=OUTER,
        esn_en=True, esn=sequence >> 32, seq_num=sequence & 0xFFFFFFFF,
    )  # fmt: skip


@given(numbers, st.sampled_from([4, 6]))
def test_scapy_opens_what_we_seal(sequence: int, version: int) -> None:
    packet = Sealer(SPI, KEY, after=sequence - 1).seal(INNER[version])
    received = OUTER / cast(Any, ESP)(packet)
    received.proto = 50
    assert bytes(scapy_sa(sequence).decrypt(received)) == INNER[version]


@given(numbers, st.sampled_from([4, 6]), st.binary(min_size=8, max_size=8))
def test_we_open_what_scapy_seals(sequence: int, version: int, iv: bytes) -> None:
    inner = IP(INNER[4]) if version == 4 else IPv6(INNER[6])
    packet = bytes(scapy_sa(sequence).encrypt(inner, iv=iv)[ESP])
    opener = Opener(SPI, KEY, after=sequence - 1)
    assert opener.open(packet) == INNER[version]
    with pytest.raises(ValueError, match="replayed"):
        opener.open(packet)


def test_another_high_half_fails() -> None:
    packet = bytes(scapy_sa(5 + 2**32).encrypt(IP(INNER[4]) / UDP())[ESP])
    with pytest.raises(ValueError, match="integrity"):
        Opener(SPI, KEY).open(packet)
    Opener(SPI, KEY, after=2**32).open(packet)
