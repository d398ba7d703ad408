"""An ICMP echo from the namespace of the calling thread, without the start of a ping."""

from __future__ import annotations

import socket
import struct
import time

_ECHO, _ECHO_REPLY = 8, 0
_IDENTIFIER = 0x4376


def until_answered(address: str, seconds: float = 5.0, again: float = 0.5) -> None:
    """Returns with the first reply; asks anew each `again` seconds, as ping does. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as end:
        end.settimeout(again)
        while time.monotonic() < deadline:
            end.sendto(request(), (address, 0))
            try:
                while True:
                    packet, (source, _) = end.recvfrom(2048)
                    if is_reply(packet, source, address):
                        return
            except TimeoutError:
                continue
    raise TimeoutError(f"{address} did not answer")


def is_reply(packet: bytes, source: str, address: str) -> bool:
    """Whether the IPv4 packet is the reply of `address` to a `request`."""
    kind, _, _, identifier = struct.unpack_from("!BBHH", packet, 4 * (packet[0] & 15))
    return (source, kind, identifier) == (address, _ECHO_REPLY, _IDENTIFIER)


def request() -> bytes:
    """An echo request (RFC 792)."""
    # The checksum of these four words alone.
    total = (_ECHO << 8) + _IDENTIFIER + 1
    return struct.pack("!BBHHH", _ECHO, 0, ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF, _IDENTIFIER, 1)
