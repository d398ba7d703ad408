"""Parses a zone transfer (RFC 5936). Pure.

A zone may have a million names, of which dns-updater needs some dozens. So the first run only skips over records, and the
second decodes those of the needed names.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.tsig
import dns.xfr
from culvert_db.published import OWNER_LABEL
from culvert_proto.contract import DNS_LABEL_MAX, DNS_NAME_WIRE_MAX
from culvert_proto.dns_name import canonical
from dns.rdtypes.ANY.SOA import SOA
from dns.rdtypes.ANY.TSIG import TSIG

from culvert_dns_updater.records import Rrset, ZoneContent
from culvert_dns_updater.tsig_key import TsigKey

# RFC 8945 §5.3.1: the most consecutive unsigned messages.
_UNSIGNED_MAX = 99

_HEADER = struct.Struct("!HHHHHH")
_RECORD = struct.Struct("!HHIH")
_QUESTION_FIXED = 4
_RESPONSE = 0x8000
_RCODE = 0x000F
_POINTER = 0xC0

# Created by a signing server (RFC 4034, RFC 5155): a name with only these types counts as free.
_DNSSEC_TYPES = frozenset({"RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "TYPE65534"})
_OWNER_LABEL = bytes([len(OWNER_LABEL)]) + OWNER_LABEL.encode()


class _Record(NamedTuple):
    """`owner` in wire format and lower case, without compression; `start`, `at` and `size`: the record and its RDATA."""

    owner: bytes
    type: int
    ttl: int
    start: int
    at: int
    size: int


class Transfer:
    """Send `query`, then pass each message of the answer to `receive`."""

    def __init__(self, origin: str, key: TsigKey) -> None:
        self._origin = dns.name.from_text(origin)
        self._owner = _wire(origin)
        query = dns.message.make_query(self._origin, dns.rdatatype.AXFR, flags=0)
        query.use_tsig(key)
        self.query = query.to_wire()
        self.records = 0
        self.messages: list[bytes] = []
        self._id, self._mac, self._key = query.id, query.mac, key
        self._context: dns.tsig.HMACTSig | dns.tsig.GSSTSig | None = None
        self._unsigned = 0
        self._serial: int | None = None
        # Names with an owner mark of any instance.
        self._marked: set[bytes] = set()

    @property
    def serial(self) -> int:
        assert self._serial is not None
        return self._serial

    def receive(self, message: bytes, now: float) -> bool:
        """Take a message. True if the transfer is complete. `now`: Unix time. Raises dns.exception.DNSException."""
        try:
            return self._receive(message, now)
        except (IndexError, struct.error):
            raise dns.exception.FormError from None

    def _receive(self, message: bytes, now: float) -> bool:
        number, flags, _, answers, *_ = _HEADER.unpack_from(message)
        if number != self._id or not flags & _RESPONSE:
            raise dns.exception.FormError
        records = list(_records(message))
        is_signed = self._verify(message, records, now)
        if flags & _RCODE:
            raise dns.xfr.TransferError(dns.rcode.Rcode(flags & _RCODE))
        is_first = not self.messages
        answer = records[:answers]
        if not answer or (is_first and not self._is_soa(answer[0])):
            raise dns.exception.FormError
        is_last = self._is_soa(answer[-1]) and not (is_first and len(answer) == 1)
        if not is_signed and (is_first or is_last):
            raise dns.exception.FormError
        self.messages.append(message)
        self.records += len(answer)
        self._marked.update(it.owner for it in answer if it.owner.startswith(_OWNER_LABEL))
        if is_last:
            soa = _rdata(message, answer[-1])
            assert isinstance(soa, SOA)
            self._serial = soa.serial
        return is_last

    def find_needed(self, desired: Iterable[str]) -> frozenset[bytes]:
        """The names to decode: desired names and names with an owner mark, their owner names, and all names above them."""
        names = {_wire(name) for name in desired} | {it.removeprefix(_OWNER_LABEL) for it in self._marked}
        marks = {_OWNER_LABEL + name for name in names}
        above = {it for name in names for it in _above(name, self._owner)}
        return frozenset(names | marks | above)

    def _is_soa(self, record: _Record) -> bool:
        return record.type == dns.rdatatype.SOA and record.owner == self._owner

    def _verify(self, message: bytes, records: list[_Record], now: float) -> bool:
        """Verify the message's signature. False if it has none."""
        last = records[-1] if records else None
        if last is None or last.type != dns.rdatatype.TSIG:
            self._unsigned += 1
            if self._context is not None:
                self._context.update(message)  # pyright: ignore[reportUnknownMemberType]
            if self._unsigned > _UNSIGNED_MAX:
                raise dns.exception.FormError
            return False
        rdata = dns.rdata.from_wire(dns.rdataclass.ANY, dns.rdatatype.TSIG, message, last.at, last.size)
        assert isinstance(rdata, TSIG)
        owner, _ = dns.name.from_wire(last.owner, 0)
        self._context = dns.tsig.validate(  # pyright: ignore[reportUnknownMemberType]
            message, self._key, owner, rdata, int(now), self._mac, last.start, self._context, multi=True
        )
        self._unsigned = 0
        return True


class Content:
    """The zone's records at the needed names."""

    def __init__(self, needed: frozenset[bytes]) -> None:
        self._needed = needed
        self._found: dict[str, dict[str, Rrset]] = {}

    def add(self, message: bytes) -> None:
        for record in _records(message):
            if record.owner not in self._needed or record.type == dns.rdatatype.TSIG:
                continue
            rtype = dns.rdatatype.to_text(dns.rdatatype.RdataType.make(record.type))
            if rtype in _DNSSEC_TYPES:
                continue
            owner = canonical(dns.name.from_wire(record.owner, 0)[0].to_text())
            rrsets = self._found.setdefault(owner, {})
            before = rrsets.get(rtype, Rrset(record.ttl, frozenset()))
            text = _rdata(message, record).to_text()
            rrsets[rtype] = Rrset(min(before.ttl, record.ttl), before.rdata | {text})

    def to_zone_content(self) -> ZoneContent:
        return self._found


def _records(message: bytes) -> Iterator[_Record]:
    _, _, questions, *counts = _HEADER.unpack_from(message)
    at = _HEADER.size
    names: dict[int, bytes] = {}
    for _ in range(questions):
        _, at = _name(message, at, names)
        at += _QUESTION_FIXED
    for _ in range(sum(counts)):
        start = at
        owner, at = _name(message, at, names)
        rtype, _, ttl, size = _RECORD.unpack_from(message, at)
        at += _RECORD.size
        if at + size > len(message):
            raise dns.exception.FormError
        yield _Record(owner, rtype, ttl, start, at, size)
        at += size


def _name(message: bytes, at: int, known: dict[int, bytes]) -> tuple[bytes, int]:
    """The name at an offset, and the offset behind it. `known`: the message's names so far (RFC 1035 §4.1.4)."""
    start, before, labels, end = at, at, b"", None
    while length := message[at]:
        if length >= _POINTER:
            to = (length & ~_POINTER) << 8 | message[at + 1]
            # Each pointer must lead further back, so that the loop ends.
            if to >= before:
                raise dns.exception.FormError
            end = at + 2 if end is None else end
            if to in known:
                labels += known[to]
                break
            before = at = to
        elif length > DNS_LABEL_MAX or len(labels) > DNS_NAME_WIRE_MAX:
            raise dns.exception.FormError
        else:
            labels += message[at : at + 1 + length].lower()
            at += 1 + length
    else:
        labels += b"\0"
        end = at + 1 if end is None else end
    known[start] = labels
    return labels, end


def _rdata(message: bytes, record: _Record) -> dns.rdata.Rdata:
    rtype = dns.rdatatype.RdataType.make(record.type)
    return dns.rdata.from_wire(dns.rdataclass.IN, rtype, message, record.at, record.size)


def _wire(name: str) -> bytes:
    return b"".join(bytes([len(it)]) + it.lower() for it in dns.name.from_text(name).labels)


def _above(name: bytes, origin: bytes) -> Iterator[bytes]:
    """The names above a name, up to the zone's origin."""
    while name != origin and len(name) > len(origin):
        name = name[1 + name[0] :]
        yield name
