"""XFRM's messages, byte for byte beside the structures of linux/xfrm.h."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from socket import AF_INET, AF_INET6

import pytest
from culvert_ipsec import Limits, xfrm_wire
from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.xfrm_plan import algorithms, allow_suites
from culvert_ipsec.xfrm_values import Direction, Policy, Ports, Replay, Sa, Template, Traffic
from culvert_ipsec.xfrm_wire import MessageType
from culvert_proto.contract import Suite

from . import linux_xfrm as linux

HERE, THERE = IPv4Address("198.51.100.7"), IPv4Address("192.0.2.1")
NO_LIMIT = 2**64 - 1
KEY = bytes(range(1, 37))
UNLIMITED = {
    f"lft__{kind}_{what}_limit": NO_LIMIT for kind in ("soft", "hard") for what in ("byte", "packet")
}


def an_sa(suite: str = "aes-gcm-256", key: bytes = KEY, window: int = 1024, esn: bool = True) -> Sa:
    its = algorithms(suite, key, list(Suite))
    soft, hard = Limits(100, 2000, 30), Limits(200, 4000, 60)
    return Sa(HERE, THERE, 0x12345678, 77, its, (4500, 4501), soft, hard, window, esn)


def test_an_sa() -> None:
    after = Replay(0x1_0000_0002, 0x3_0000_0004)
    body, attributes = xfrm_wire.state(an_sa(), after)
    info = linux.filled(
        linux.SaInfo, id__daddr=THERE.packed, id__spi=0x12345678, id__proto=50, saddr=HERE.packed,
        lft__soft_byte_limit=2000, lft__hard_byte_limit=4000, lft__soft_packet_limit=100, lft__hard_packet_limit=200,
        lft__soft_use_expires_seconds=30, lft__hard_use_expires_seconds=60, reqid=77, family=AF_INET, mode=1,
        flags=128 | 32,
    )  # fmt: skip
    aead = linux.filled(linux.AlgoIcv, alg_name=b"rfc4106(gcm(aes))", alg_key_len=288, alg_icv_len=128)
    encap = linux.filled(linux.Encap, encap_type=2, encap_sport=4500, encap_dport=4501)
    # A number that is not above the highest received counts as received.
    replay = linux.filled(linux.ReplayEsn, bmp_len=32, oseq=2, seq=4, oseq_hi=1, seq_hi=3, replay_window=1024)
    assert xfrm_wire.payload(MessageType.NEWSA, body, attributes) == linux.payload(
        info, {18: aead + KEY, 4: encap, 23: replay + b"\xff" * 128}
    )


def test_a_suite_of_two_algorithms_and_short_numbers() -> None:
    key = bytes(range(36))
    body, attributes = xfrm_wire.state(an_sa("aes-cbc-hmac-sha1-96", key, 33, esn=False), Replay())
    crypt = linux.filled(linux.Algo, alg_name=b"cbc(aes)", alg_key_len=128)
    auth = linux.filled(linux.AlgoIcv, alg_name=b"hmac(sha1)", alg_key_len=160, alg_icv_len=96)
    assert attributes["XFRMA_ALG_CRYPT"] == crypt + key[:16]
    assert attributes["XFRMA_ALG_AUTH_TRUNC"] == auth + key[16:]
    assert attributes["XFRMA_REPLAY_ESN_VAL"] == linux.filled(
        linux.ReplayEsn, bmp_len=2, replay_window=33
    ) + bytes(8)
    assert body[216] == 32


@pytest.mark.parametrize("version", [4, 6])
def test_a_policy(version: int) -> None:
    near, far = {4: ("10.99.0.5/32", "10.20.0.0/16"), 6: ("fd99::5/128", "fd20::/64")}[version]
    traffic = Traffic(ip_network(near), ip_network(far), 6, dst_ports=Ports(8080, 0xFFF0))
    policy = Policy(Direction.OUT, traffic, 1112, Template(HERE, THERE, 77, 0x12345678))
    body, attributes = xfrm_wire.policy(policy, 0x44000009)
    chosen = {
        "sel__daddr": ip_network(far).network_address.packed, "sel__saddr": ip_network(near).network_address.packed,
        "sel__dport": 8080, "sel__dport_mask": 0xFFF0, "sel__family": {4: AF_INET, 6: AF_INET6}[version],
        "sel__prefixlen_d": ip_network(far).prefixlen, "sel__prefixlen_s": ip_network(near).prefixlen,
        "sel__proto": 6,
    }  # fmt: skip
    info = linux.filled(linux.PolicyInfo, **chosen, **UNLIMITED, priority=1112, index=0x44000009, dir=1)
    every = 2**32 - 1
    template = linux.filled(
        linux.Template, id__daddr=THERE.packed, id__spi=0x12345678, id__proto=50, family=AF_INET,
        saddr=HERE.packed, reqid=77, mode=1, aalgos=every, ealgos=every, calgos=every,
    )  # fmt: skip
    assert xfrm_wire.payload(MessageType.UPDPOLICY, body, attributes) == linux.payload(info, {5: template})
    assert xfrm_wire.policy_id(Direction.OUT, traffic) == linux.filled(linux.PolicyId, **chosen, dir=1)
    assert xfrm_wire.read_policy(body, range(0x44000000, 0x45000000, 8)) == (
        0x44000008,
        Direction.OUT,
        traffic,
    )
    assert xfrm_wire.read_policy(body, range(0, 8, 8)) is None


@pytest.mark.parametrize("text", ["10.20.0.10", "fd20::7"])
def test_a_packet_that_wants_an_sa(text: str) -> None:
    address = ip_address(text)
    family = AF_INET if isinstance(address, IPv4Address) else AF_INET6
    data = linux.framed(0x17, linux.filled(
        linux.Acquire, id__daddr=THERE.packed, id__proto=50, sel__daddr=address.packed,
        sel__prefixlen_d=address.max_prefixlen, sel__family=family, policy__index=0x44000009, policy__dir=1,
        policy__sel__family=family,
    ), {5: bytes(64)})  # fmt: skip
    body, _ = xfrm_wire.body_and_attributes(MessageType.ACQUIRE, data)
    assert xfrm_wire.read_acquire(body, range(0x44000000, 0x45000000, 8)) == address
    assert xfrm_wire.read_acquire(body, range(0, 8, 8)) is None


def test_an_spi_for_an_sa_that_is_wanted() -> None:
    unlimited = {f"info__{name}": value for name, value in UNLIMITED.items()}
    assert xfrm_wire.spi_wanted(Template(HERE, THERE, 77)) == linux.filled(
        linux.SpiInfo, **unlimited, info__id__daddr=THERE.packed, info__id__proto=50, info__saddr=HERE.packed,
        info__reqid=77, info__family=AF_INET, info__mode=1, min=256, max=2**32 - 1,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["192.0.2.1", "2001:db8::1"])
def test_an_sa_by_its_name(text: str) -> None:
    address = ip_address(text)
    family = AF_INET if isinstance(address, IPv4Address) else AF_INET6
    expected = linux.filled(linux.SaId, daddr=address.packed, spi=0x1001, family=family, proto=50)
    assert xfrm_wire.state_id((address, 0x1001)) == expected


@pytest.mark.parametrize("hard", [False, True])
def test_what_expired(hard: bool) -> None:
    address = IPv6Address("2001:db8::1")
    data = linux.framed(0x18, linux.filled(
        linux.Expire, state__id__daddr=address.packed, state__id__spi=0x1001, state__reqid=77, state__family=AF_INET6,
        state__curlft__bytes=5000, state__curlft__packets=40, state__stats__replay_window=1, state__stats__replay=2,
        state__stats__integrity_failed=3, hard=hard,
    ), {31: b"unknown", 4: bytes(24)})  # fmt: skip
    body, attributes = xfrm_wire.body_and_attributes(MessageType.EXPIRE, data)
    expired = xfrm_wire.read_expire(body)
    assert expired.hard is hard
    assert (expired.sa.name, expired.sa.reqid) == ((address, 0x1001), 77)
    assert (expired.sa.packets, expired.sa.bytes) == (40, 5000)
    assert (expired.sa.late, expired.sa.replayed, expired.sa.forged) == (1, 2, 3)
    assert attributes == {"XFRMA_ENCAP": bytes(24)}


def test_the_numbers_of_an_sa() -> None:
    esn = struct.pack("=6I", 1, 2, 4, 1, 3, 32) + bytes(4)
    body, _ = xfrm_wire.state(an_sa(), Replay())
    assert xfrm_wire.read_state(body, {"XFRMA_REPLAY_ESN_VAL": esn}).replay == Replay(
        0x1_0000_0002, 0x3_0000_0004
    )


def test_no_key_shows() -> None:
    assert repr(KEY) not in repr(an_sa())
    assert "cipher" in repr(an_sa())


def test_keys_of_another_length_and_suites_that_are_off_are_refused() -> None:
    usable = allow_suites(["aes-cbc-hmac-sha1-96"])
    assert len(usable) == 4
    algorithms("aes-cbc-hmac-sha1-96", bytes(36), usable)
    for suite, key in (("aes-gcm-256", bytes(35)), ("aes-ctr-hmac-md5-96", bytes(36)), ("rot13", b"")):
        with pytest.raises(DatapathError):
            algorithms(suite, key, usable)
    with pytest.raises(DatapathError, match="rot13"):
        allow_suites(["rot13"])
