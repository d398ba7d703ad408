"""A captured super-frame as the packets that a wire would carry: TCP segmentation offload, and trains of UDP datagrams.

virtio_net_hdr ┼ Ethernet ┼ IP ┼ TCP or UDP ┼ payload of all ─► Ethernet ┼ IP ┼ TCP or UDP ┼ gso_size bytes, …
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

# linux/virtio_net.h
HEADER = struct.Struct("=BBHHHH")  # flags, gso_type, hdr_len, gso_size, csum_start, csum_offset
TCPV4, TCPV6, UDP_L4, ECN = 1, 4, 5, 0x80

ETHERNET, IPV6 = 14, 40
FIN_PSH = 0x09


def packets(captured: bytes) -> Iterator[bytes]:
    """The frames that a captured one stands for; `captured` begins with its virtio_net_hdr. A checksum that was left to the
    interface stays unfinished."""
    _, kind, _, size, _, _ = HEADER.unpack_from(captured)
    frame = captured[HEADER.size :]
    if kind & ~ECN not in (TCPV4, TCPV6, UDP_L4) or not size:
        yield frame
        return
    version = frame[ETHERNET] >> 4
    transport = ETHERNET + (4 * (frame[ETHERNET] & 0x0F) if version == 4 else IPV6)
    tcp = kind & ~ECN != UDP_L4
    payload = transport + (4 * (frame[transport + 12] >> 4) if tcp else 8)
    for index, start in enumerate(range(payload, len(frame), size)):
        body = frame[start : start + size]
        head = bytearray(frame[:payload])
        length = payload + len(body) - ETHERNET
        if version == 4:
            identification = int.from_bytes(head[ETHERNET + 4 : ETHERNET + 6])
            struct.pack_into("!HH", head, ETHERNET + 2, length, (identification + index) & 0xFFFF)
        else:
            struct.pack_into("!H", head, ETHERNET + 4, length - IPV6)
        if tcp:
            sequence = int.from_bytes(head[transport + 4 : transport + 8])
            struct.pack_into("!I", head, transport + 4, (sequence + start - payload) & 0xFFFFFFFF)
            if start + size < len(frame):
                head[transport + 13] &= ~FIN_PSH
        else:
            struct.pack_into("!H", head, transport + 4, payload + len(body) - transport)
        yield bytes(head) + body
