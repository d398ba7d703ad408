"""Single SAs as Python sees them."""

import pytest
from culvert_ipsec.esp import EspError, Inbound, Outbound

KEY = bytes(range(36))
INNER = bytes([0x45, 0, 0, 40]) + bytes(36)


def test_causes_are_typed() -> None:
    outbound, inbound = Outbound(256, "aes-gcm-256", KEY), Inbound(256, "aes-gcm-256", KEY)
    packet = outbound.seal(INNER)
    damaged = packet[:-1] + bytes([packet[-1] ^ 1])
    causes = {
        "malformed": b"",
        "wrong_spi": b"\1" + packet[1:],
        "icv": damaged,
        "dummy": outbound.seal_dummy(200),
    }
    for cause, received in causes.items():
        with pytest.raises(EspError) as refused:
            inbound.open(received)
        assert refused.value.cause == cause
    with pytest.raises(EspError) as refused:
        outbound.seal(b"no packet")
    assert refused.value.cause == "malformed"


def test_a_legacy_suite_needs_to_be_allowed() -> None:
    for kind in (Outbound, Inbound):
        with pytest.raises(ValueError, match="legacy suite"):
            kind(256, "aes-cbc-hmac-sha1-96", KEY)
        kind(256, "aes-cbc-hmac-sha1-96", KEY, allow_legacy=True)


def test_what_cannot_be_an_sa_is_refused_and_no_key_is_told() -> None:
    for spi, suite, key in [(255, "aes-gcm-256", KEY), (256, "rot13", KEY), (256, "aes-gcm-256", KEY[:35])]:
        with pytest.raises(ValueError, match=r"reserved|no such suite|needs key material") as refused:
            Outbound(spi, suite, key)
        assert KEY[:4].hex() not in str(refused.value)


def test_padded_packets_are_equally_long() -> None:
    outbound = Outbound(256, "aes-gcm-256", KEY, pad_to=1000)
    inbound = Inbound(256, "aes-gcm-256", KEY)
    packet = outbound.seal(INNER)
    assert len(packet) == 8 + 8 + 1000 + 4 + 16
    assert inbound.open(packet) == INNER
