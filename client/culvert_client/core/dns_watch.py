"""Reads DNS packets on this computer's interfaces (RFC 791, 768, 8200, 1035). Malformed packets give None."""

from __future__ import annotations

import struct
from collections import OrderedDict

import dns.rdataclass
from culvert_proto.dns_name import canonical

from culvert_client.core import dns_wire
from culvert_client.core.client_events import AnswerSeen, NameSeen

DNS_PORT = 53
ASKED_AT_MOST = 512
"""Queries whose answers are still believed."""

_UDP = 17
_UDP_HEADER = struct.Struct("!HHHH")
_IPV4_HEADER, _IPV6_HEADER = 20, 40
_FRAGMENT_OFFSET = 0x1FFF

_Asked = tuple[bytes, int, int, str]
"""Name server, the asker's port, the query's id and name."""


class DnsWatch:
    """Accepts only answers to queries that it saw leave, one answer for each."""

    def __init__(self) -> None:
        self._asked: OrderedDict[_Asked, None] = OrderedDict()

    def take_packet(self, packet: bytes, *, leaves: bool) -> NameSeen | AnswerSeen | None:
        """The query or answer in an IP packet. `leaves`: the packet leaves this computer."""
        datagram = _datagram(packet)
        if datagram is None:
            return None
        src, dst, src_port, dst_port, message = datagram
        asked = dns_wire.question_of(message)
        if asked is None or asked.rdclass != dns.rdataclass.IN:
            return None
        if dns_wire.treatment(asked.rdtype) is not dns_wire.Treatment.HELD:
            return None
        fqdn, query_id = canonical(asked.name.to_text()), dns_wire.id_of(message)
        if leaves and dst_port == DNS_PORT and not dns_wire.is_answer(message):
            self._asked[dst, src_port, query_id, fqdn] = None
            if len(self._asked) > ASKED_AT_MOST:
                self._asked.popitem(last=False)
            return NameSeen(fqdn)
        key = (src, dst_port, query_id, fqdn)
        if leaves or src_port != DNS_PORT or not dns_wire.is_answer(message) or key not in self._asked:
            return None
        del self._asked[key]
        found = dns_wire.read_found(message)
        return AnswerSeen(fqdn, found.addresses, found.aliases) if found and found.addresses else None


def _datagram(packet: bytes) -> tuple[bytes, bytes, int, int, bytes] | None:
    """Source, destination, ports and payload of a whole UDP datagram."""
    match packet[0] >> 4 if packet else 0:
        case 4 if len(packet) >= _IPV4_HEADER and packet[9] == _UDP:
            start, src, dst = 4 * (packet[0] & 15), packet[12:16], packet[16:20]
            if start < _IPV4_HEADER or int.from_bytes(packet[6:8]) & _FRAGMENT_OFFSET:
                return None
        case 6 if len(packet) >= _IPV6_HEADER and packet[6] == _UDP:
            start, src, dst = _IPV6_HEADER, packet[8:24], packet[24:40]
        case _:
            return None
    if len(packet) < start + _UDP_HEADER.size:
        return None
    src_port, dst_port, _, _ = _UDP_HEADER.unpack_from(packet, start)
    return src, dst, src_port, dst_port, packet[start + _UDP_HEADER.size :]
