"""Frames that scapy makes are judged by the lab's own classifier."""

from __future__ import annotations

import pytest
from culvert_lab import topology as lab
from culvert_lab.classify import Classifier, Kind
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.dns import DNS, DNSQR, DNSRR
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6MLReport2, ICMPv6ND_NS, IPv6, IPv6ExtHdrHopByHop
from scapy.layers.ipsec import ESP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
SEALED = bytes(range(7, 87))
HELLO = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"
OUTBOUND = {"src": lab.LAPTOP_ADDRESS, "dst": lab.GATEWAY_ADDRESS}
TO_CONTROLLER = {"src": lab.LAPTOP_ADDRESS, "dst": lab.CONTROLLER_ADDRESS}


def judge(*packets: Packet) -> Kind:
    """The last packet's kind, after all those before it."""
    classifier = Classifier()
    kinds = [classifier.classify("laptop", bytes(ETHER / packet)).kind for packet in packets]
    return kinds[-1]


def tls(payload: bytes, *, seq: int = 1, flags: str = "PA", port: int = lab.REST_PORT) -> Packet:
    return IP(**TO_CONTROLLER) / TCP(sport=40000, dport=port, seq=seq, flags=flags) / Raw(payload)


ALLOWED: dict[str, tuple[Packet, Kind]] = {
    "ESP in UDP": (
        IP(**OUTBOUND) / UDP(sport=4500, dport=4500) / ESP(spi=0x1234, seq=1, data=SEALED),
        Kind.ESP,
    ),
    "plain ESP": (IP(**OUTBOUND) / ESP(spi=0x1234, seq=1, data=SEALED), Kind.ESP),
    "keepalive": (IP(**OUTBOUND) / UDP(sport=4500, dport=4500) / Raw(b"\xff"), Kind.INFRASTRUCTURE),
    "ping of the gateway": (IP(**OUTBOUND) / ICMP() / Raw(bytes(16)), Kind.INFRASTRUCTURE),
    "a probe of the path's length": (
        IP(**OUTBOUND) / ICMP() / Raw(SEALED[:16] + bytes(1456)),
        Kind.INFRASTRUCTURE,
    ),
    "DNS answer with an inner address": (
        IP(src=lab.DNS_ADDRESS, dst=lab.LAPTOP_ADDRESS)
        / UDP(sport=53, dport=40000)
        / DNS(qr=1, qd=DNSQR(qname=lab.WIKI_NAME), an=DNSRR(rrname=lab.WIKI_NAME, rdata=lab.WIKI_ADDRESS)),
        Kind.DNS,
    ),
    "TLS to REST": (tls(HELLO), Kind.CONTROLLER_TLS),
    "TLS to the agent API": (tls(HELLO, port=lab.AGENT_PORT), Kind.CONTROLLER_TLS),
    "a question for a captive portal that nobody answers": (
        IP(**TO_CONTROLLER) / TCP(sport=40000, dport=80, flags="S"),
        Kind.INFRASTRUCTURE,
    ),
    "ARP": (ARP(psrc="203.0.113.1", pdst=lab.LAPTOP_ADDRESS), Kind.ARP),
    "ND": (IPv6(dst="ff02::1") / ICMPv6ND_NS(), Kind.INFRASTRUCTURE),
    "MLD": (IPv6(dst="ff02::16") / IPv6ExtHdrHopByHop() / ICMPv6MLReport2(), Kind.INFRASTRUCTURE),
    "ICMP error about ESP": (
        IP(src="203.0.113.1", dst=lab.LAPTOP_ADDRESS)
        / ICMP(type=3, code=4)
        / IP(**OUTBOUND)
        / UDP(sport=4500, dport=4500),
        Kind.INFRASTRUCTURE,
    ),
}

CLEAR: dict[str, Packet] = {
    "a packet to the intranet": IP(src=lab.LAPTOP_ADDRESS, dst=lab.WIKI_ADDRESS) / TCP(dport=80, flags="S"),
    "a packet from the inner pool": IP(src="10.99.0.2", dst="192.0.2.1") / UDP(dport=9),
    "an error about a leaked packet": IP(src="203.0.113.1", dst=lab.LAPTOP_ADDRESS)
    / ICMP(type=3, code=0)
    / IP(src=lab.LAPTOP_ADDRESS, dst=lab.WIKI_ADDRESS)
    / TCP(dport=80),
    "the page inside UDP 4500": IP(**OUTBOUND)
    / UDP(sport=4500, dport=4500)
    / ESP(spi=0x1234, seq=1, data=SEALED + lab.MARKER.encode() + b"..."),
    "an inner packet inside unencrypted ESP": IP(**OUTBOUND)
    / UDP(sport=4500, dport=4500)
    / ESP(spi=0x1234, seq=1, data=bytes(IP(src="10.99.0.2", dst=lab.WIKI_ADDRESS) / TCP()) + bytes(24)),
    "IKE": IP(**OUTBOUND) / UDP(sport=4500, dport=4500) / Raw(bytes(64)),
    "ESP to somebody else": IP(src=lab.LAPTOP_ADDRESS, dst=lab.DNS_ADDRESS)
    / ESP(spi=0x1234, seq=1, data=SEALED),
    "HTTP": IP(**TO_CONTROLLER) / TCP(dport=80) / Raw(b"GET / HTTP/1.1\r\n\r\n"),
    "HTTP on the controller's port": tls(b"GET / HTTP/1.1\r\n\r\n"),
    "no DNS on port 53": IP(src=lab.LAPTOP_ADDRESS, dst=lab.DNS_ADDRESS) / UDP(dport=53) / Raw(b"hello"),
    "a ping of somebody else": IP(src=lab.LAPTOP_ADDRESS, dst=lab.DNS_ADDRESS) / ICMP() / Raw(bytes(16)),
    "a ping that carries something": IP(**OUTBOUND) / ICMP() / Raw(SEALED),
    "a probe that carries something at its end": IP(**OUTBOUND) / ICMP() / Raw(bytes(1471) + b"x"),
    "a fragment": IP(**OUTBOUND, flags="MF") / UDP(sport=4500, dport=4500) / Raw(SEALED),
    "ARP for an inner address": ARP(psrc="203.0.113.1", pdst=lab.WIKI_ADDRESS),
    "IPv6": IPv6(dst="2001:db8::1") / UDP(dport=53),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_each_allowed_packet_has_a_kind(name: str) -> None:
    packet, kind = ALLOWED[name]
    assert judge(packet) is kind


@pytest.mark.parametrize("name", CLEAR)
def test_everything_else_is_cleartext(name: str) -> None:
    assert judge(CLEAR[name]) is Kind.CLEARTEXT


def test_a_record_may_span_segments_out_of_order() -> None:
    record = b"\x17\x03\x03\x00\x64" + bytes(100) + HELLO
    assert judge(
        tls(b"", seq=999, flags="S"), tls(record[40:], seq=1040), tls(record[:40], seq=1000)
    ) is Kind.CONTROLLER_TLS  # fmt: skip


def test_cleartext_after_a_good_record_is_caught() -> None:
    assert judge(tls(b"", seq=999, flags="S"), tls(HELLO, seq=1000), tls(b"hello world", seq=1010)) is (
        Kind.CLEARTEXT
    )


def test_retransmissions_are_not_read_twice() -> None:
    record = b"\x17\x03\x03\x00\x64" + bytes(100)
    segments = (
        tls(b"", seq=999, flags="S"),
        tls(record, seq=1000),
        tls(record, seq=1000),
        tls(HELLO, seq=1105),
    )
    assert judge(*segments) is Kind.CONTROLLER_TLS


@given(st.binary(max_size=200))
def test_any_bytes_are_handled(frame: bytes) -> None:
    Classifier().classify("laptop", frame)


@given(
    st.binary(max_size=120),
    st.sampled_from([lab.REST_PORT, 80, 53, 4500]),
    st.sampled_from([6, 17, 50, 1, 2, 99]),
)
def test_no_payload_to_the_intranet_is_allowed(payload: bytes, port: int, protocol: int) -> None:
    packet = IP(src=lab.LAPTOP_ADDRESS, dst=lab.WIKI_ADDRESS, proto=protocol) / Raw(
        port.to_bytes(2) * 2 + payload
    )
    assert judge(packet) is Kind.CLEARTEXT


@given(st.binary(min_size=1, max_size=300), st.lists(st.integers(1, 60), max_size=8))
def test_tls_is_recognised_in_segments_of_any_size(body: bytes, cuts: list[int]) -> None:
    stream = HELLO + b"\x17\x03\x03" + len(body).to_bytes(2) + body + HELLO
    segments, at = [tls(b"", seq=999, flags="S")], 0
    for cut in [*cuts, len(stream)]:
        if stream[at : at + cut]:
            segments.append(tls(stream[at : at + cut], seq=1000 + at))
        at += cut
    assert judge(*segments) is Kind.CONTROLLER_TLS
