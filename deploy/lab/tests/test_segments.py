from __future__ import annotations

from culvert_lab.segments import HEADER, TCPV4, TCPV6, UDP_L4, packets
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

PAYLOAD = bytes(range(250))
SIZE = 100


def split(frame: Packet, kind: int) -> list[Packet]:
    header = HEADER.pack(1, kind, 0, SIZE if kind else 0, 0, 0)
    return [Ether(one) for one in packets(header + bytes(frame))]


def payloads(frames: list[Packet]) -> list[bytes]:
    return [bytes(frame[IP].payload.payload) for frame in frames]


def test_a_frame_of_its_own_stays_as_it_is() -> None:
    frame = Ether() / IP() / UDP() / Raw(PAYLOAD)
    assert [bytes(one) for one in split(frame, 0)] == [bytes(frame)]


def test_tcp_segments_count_their_bytes() -> None:
    frames = split(
        Ether() / IP(id=0xFFFF) / TCP(seq=2**32 - 50, flags="PA", options=[("NOP", None)] * 4) / Raw(PAYLOAD),
        TCPV4,
    )
    assert payloads(frames) == [PAYLOAD[:100], PAYLOAD[100:200], PAYLOAD[200:]]
    assert [frame[TCP].seq for frame in frames] == [2**32 - 50, 50, 150]
    assert [str(frame[TCP].flags) for frame in frames] == ["A", "A", "PA"]
    assert [(frame[IP].len, frame[IP].id) for frame in frames] == [(144, 0xFFFF), (144, 0), (94, 1)]


def test_tcp_over_ipv6() -> None:
    frames = split(Ether() / IPv6() / TCP() / Raw(PAYLOAD), TCPV6)
    assert [frame[IPv6].plen for frame in frames] == [120, 120, 70]


def test_datagrams_of_a_train_have_their_own_lengths() -> None:
    frames = split(Ether() / IP() / UDP(sport=4500, dport=4500) / Raw(PAYLOAD), UDP_L4)
    assert payloads(frames) == [PAYLOAD[:100], PAYLOAD[100:200], PAYLOAD[200:]]
    assert [(frame[IP].len, frame[UDP].len) for frame in frames] == [(128, 108), (128, 108), (78, 58)]
