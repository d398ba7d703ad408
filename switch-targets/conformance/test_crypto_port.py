"""The crypto port (docs/crypto-port.md) with a host that lies, and the host with a gateway that does."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import finsy as fy
import pytest
from crypto_front import FRONT_MAC, HOST_MAC, FrontSwitch, front_entries, host_entries
from gateway_entries import LAN2_PORT, V4, WAN_MAC, Tunnel, host, ip
from gateway_rig import QUIET, Drop, Gateway, esp_bytes, new_tunnel, seal, to_inner, to_server
from gateway_wires import PREFIX, SWITCH, Wire
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("gateway", ["host"], indirect=True)]

ETHERTYPE = 0x88B5
_FORMAT = "!BBBBHHII16s16s"
OPEN, SEAL, OPENED, SEALED = 1, 2, 3, 4
OK, SOFT_LIMIT, MALFORMED, REPLAY, ICV, DUMMY, HARD_LIMIT, KEY = range(8)


@dataclass(frozen=True)
class Crypto:
    """The header, as docs/crypto-port.md has it."""

    version: int = 1
    kind: int = 0
    verdict: int = 0
    flags: int = 0
    tos: int = 0
    length: int = 0
    port: int = 0
    slot: int = 0
    generation: int = 0
    source: bytes = bytes(16)
    destination: bytes = bytes(16)

    def pack(self) -> bytes:
        head = (self.version << 4 | self.kind, self.verdict, self.flags, self.tos, self.length, self.port)
        return struct.pack(_FORMAT, *head, self.slot, self.generation, self.source, self.destination)

    @classmethod
    def unpack(cls, frame: Packet) -> tuple[Crypto, bytes]:
        """The header of a frame, and the payload behind it."""
        carried = bytes(frame.payload)
        fields: tuple[Any, ...] = struct.unpack_from(_FORMAT, carried)
        first, *others = fields
        return cls(first >> 4, first & 15, *others), carried[struct.calcsize(_FORMAT) :]


@dataclass
class Host:
    """The far end of the crypto port. The test is the host."""

    wire: Wire

    def request(self) -> tuple[Crypto, bytes]:
        """The next request, and its payload."""
        frame = self.wire.receive()
        assert frame is not None
        assert (frame.src, frame.dst, frame.type) == (FRONT_MAC, HOST_MAC, ETHERTYPE)
        return Crypto.unpack(frame)

    def answer(self, header: Crypto, payload: bytes = b"", **changes: Any) -> None:
        self.wire.send(frame_of(header, payload, **changes))


def frame_of(header: Crypto, payload: bytes = b"", *, source: str = HOST_MAC, **changes: Any) -> Packet:
    return Ether(src=source, dst=FRONT_MAC, type=ETHERTYPE) / Raw(replace(header, **changes).pack() + payload)


@pytest.fixture
def lying(gateway: Gateway) -> Iterator[Host]:
    """The gateway's host, which answers nothing by itself."""
    wire = Wire("front", f"{PREFIX}-host")
    yield Host(wire)
    wire.close()


async def served(gateway: Gateway, **changes: Any) -> Tunnel:
    await switch(gateway).host.delete(host_entries())
    tunnel = new_tunnel(**changes)
    await gateway.insert(tunnel.entries())
    return tunnel


def switch(gateway: Gateway) -> FrontSwitch:
    return cast(FrontSwitch, gateway.switch)


async def test_a_request_has_all_that_its_answer_needs(gateway: Gateway, lying: Host) -> None:
    tunnel = await served(gateway)
    inner = to_server(V4, b"request")
    sealed = seal(tunnel, inner, 1)
    gateway.wan.send(gateway.esp(tunnel, sealed, tos=0xB8))
    asked, payload = lying.request()
    assert payload == sealed
    source, destination = (ip(it).to_bytes(16) for it in (V4.peer, V4.gateway))
    assert asked == Crypto(
        kind=OPEN, tos=0xB8, length=len(payload), port=tunnel.peer_port, slot=tunnel.number,
        generation=asked.generation, source=source, destination=destination,
    )  # fmt: skip
    lying.answer(asked, bytes(inner), kind=OPENED, length=0)
    arrived = gateway.lan.receive()
    assert arrived is not None
    assert bytes(arrived[UDP].payload) == b"request"

    gateway.lan.send(gateway.on_lan(to_inner(V4, b"answer", tos=0x48)))
    asked, payload = lying.request()
    assert bytes(IP(payload)[UDP].payload) == b"answer"
    assert (asked.kind, asked.tos, asked.length, asked.slot) == (SEAL, 0x48, len(payload), tunnel.number)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"version": 2}, Drop.CRYPTO_FRAME),
        ({"kind": 0}, Drop.CRYPTO_FRAME),
        ({"kind": OPEN}, Drop.CRYPTO_FRAME),
        ({"kind": SEAL}, Drop.CRYPTO_FRAME),
        ({"kind": 15}, Drop.CRYPTO_FRAME),
        ({"slot": 77}, Drop.CRYPTO_ANSWER),
        ({"generation": 1}, Drop.CRYPTO_ANSWER),
        ({"kind": SEALED, "slot": 77}, Drop.CRYPTO_ANSWER),
        ({"verdict": MALFORMED}, Drop.ESP_MALFORMED),
        ({"verdict": REPLAY}, Drop.REPLAY),
        ({"verdict": ICV}, Drop.ICV),
        ({"verdict": DUMMY}, Drop.DUMMY),
        ({"verdict": HARD_LIMIT}, Drop.HARD_LIMIT),
        ({"verdict": KEY}, Drop.KEY),
        ({"verdict": 8}, Drop.ESP_MALFORMED),
        ({"verdict": 255}, Drop.ESP_MALFORMED),
        ({"source": "03:00:00:00:00:01"}, Drop.NOT_OUR_MAC),
    ],
    ids=str,
)
async def test_an_answer_that_is_none_is_dropped(
    gateway: Gateway, lying: Host, changes: dict[str, Any], cause: Drop
) -> None:
    tunnel = await served(gateway)
    inner = to_server(V4, b"request")
    gateway.wan.send(gateway.seal(tunnel, inner, 1))
    asked, _ = lying.request()
    async with gateway.expect_drops(cause):
        lying.answer(asked, bytes(inner), **{"kind": OPENED, "length": 0, **changes})


async def test_an_opened_packet_is_believed_no_further_than_the_engines(
    gateway: Gateway, lying: Host
) -> None:
    tunnel = await served(gateway)
    gateway.wan.send(gateway.seal(tunnel, to_server(V4), 1))
    asked, _ = lying.request()
    other = IP(src="10.99.0.6", dst=V4.server) / UDP(sport=1, dport=2)
    for inner, cause in (
        (bytes(other), Drop.SELECTOR),
        (b"", Drop.ESP_MALFORMED),
        (b"\x45", Drop.ESP_MALFORMED),
    ):
        async with gateway.expect_drops(cause):
            lying.answer(asked, inner, kind=OPENED, length=0)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"verdict": HARD_LIMIT}, Drop.HARD_LIMIT),
        ({"verdict": KEY}, Drop.KEY),
        ({"verdict": ICV}, Drop.MALFORMED),
        ({"length": 8}, Drop.CRYPTO_FRAME),
        ({"length": 65535}, Drop.CRYPTO_FRAME),
        ({"generation": 1}, Drop.CRYPTO_ANSWER),
    ],
    ids=str,
)
async def test_a_sealed_packet_that_is_none_stays_here(
    gateway: Gateway, lying: Host, changes: dict[str, Any], cause: Drop
) -> None:
    tunnel = await served(gateway)
    gateway.lan.send(gateway.on_lan(to_inner(V4, b"answer")))
    asked, _ = lying.request()
    sealed = tunnel.spi_out.to_bytes(4) + bytes(40)
    async with gateway.expect_drops(cause):
        lying.answer(asked, sealed, **{"kind": SEALED, "length": len(sealed), **changes})


async def test_what_a_policy_protects_never_leaves_in_clear(gateway: Gateway, lying: Host) -> None:
    await served(gateway)
    gateway.lan.send(gateway.on_lan(to_inner(V4, b"answer")))
    asked, inner = lying.request()
    for payload, cause in ((inner, Drop.CRYPTO_ANSWER), (b"", Drop.MALFORMED), (b"\0\0\x20", Drop.MALFORMED)):
        async with gateway.expect_drops(cause):
            lying.answer(asked, payload, kind=SEALED, length=len(payload))


async def test_a_host_cannot_answer_for_another_port(gateway: Gateway, lying: Host) -> None:
    tunnel = await served(gateway)
    inner = to_server(V4, b"request")
    gateway.wan.send(gateway.seal(tunnel, inner, 1))
    asked, _ = lying.request()
    elsewhere = fy.P4TableEntry(
        "port_role", match=fy.Match(port=LAN2_PORT, vlan=0), action=fy.Action("set_crypto", mac=FRONT_MAC)
    )
    await gateway.switch.modify([elsewhere])
    async with gateway.expect_drops(Drop.CRYPTO_ANSWER):
        gateway.lan2.send(frame_of(asked, bytes(inner), kind=OPENED, length=0))
    # Neither can a stranger.
    async with gateway.expect_drops(Drop.NOT_IP):
        frame = frame_of(asked, bytes(inner), kind=OPENED, length=0)
        frame.dst = WAN_MAC
        gateway.wan.send(frame)


async def test_what_is_no_answer_is_counted_at_the_crypto_port(gateway: Gateway, lying: Host) -> None:
    await served(gateway)
    for frame in (
        Ether(src=HOST_MAC, dst=FRONT_MAC) / to_server(V4),
        Ether(src=HOST_MAC, dst=FRONT_MAC, type=ETHERTYPE) / Raw(bytes(48)),
    ):
        async with gateway.expect_drops(Drop.CRYPTO_FRAME):
            lying.wire.send(frame)
    async with gateway.expect_drops(Drop.MALFORMED):
        lying.wire.send(Ether(src=HOST_MAC, dst=FRONT_MAC, type=ETHERTYPE) / Raw(b"\x13"))


async def test_an_sa_at_a_port_without_a_host_drops(gateway: Gateway) -> None:
    tunnel = await served(gateway)
    port = next(it for it in front_entries() if it.table_id == "crypto_port")
    await gateway.switch.delete([port])
    async with gateway.expect_drops(Drop.NO_HOST, Drop.NO_HOST):
        gateway.wan.send(gateway.seal(tunnel, to_server(V4), 1))
        gateway.lan.send(gateway.on_lan(to_inner(V4)))


async def test_answers_of_an_old_generation_end_with_it(gateway: Gateway, lying: Host) -> None:
    old = await served(gateway)
    gateway.lan.send(gateway.on_lan(to_inner(V4, b"answer")))
    asked, _ = lying.request()
    fresh = new_tunnel()
    await gateway.switch.modify([fresh.sad_in(), fresh.sad_out()])
    sealed = old.spi_out.to_bytes(4) + bytes(40)
    async with gateway.expect_drops(Drop.CRYPTO_ANSWER):
        lying.answer(asked, sealed, kind=SEALED, length=len(sealed))


async def test_several_packets_wait_at_the_host_and_keep_nothing_here(gateway: Gateway, lying: Host) -> None:
    """Answers may come in any order, and twice."""
    one = await served(gateway)
    two = new_tunnel(number=2, spi_in=0x1002, spi_out=0x2003, peer_port=40999)
    away = two.spd_out()
    away = fy.P4TableEntry(
        "spd_out",
        match=fy.Match(role=2, src=host(V4.server), dst=host("10.99.0.6")),
        priority=10,
        action=away.action,
    )
    await gateway.insert(two.sad_in(), two.sad_out(), away)
    for inner in (
        to_inner(V4, b"one"),
        IP(src=V4.server, dst="10.99.0.6") / UDP(sport=1, dport=2) / Raw(b"two"),
    ):
        gateway.lan.send(gateway.on_lan(inner))
    (first, _), (second, _) = lying.request(), lying.request()
    for asked, tunnel in ((second, two), (first, one), (second, two)):
        sealed = tunnel.spi_out.to_bytes(4) + bytes(40)
        lying.answer(asked, sealed, kind=SEALED, length=len(sealed))
        left = gateway.wan.receive()
        assert left is not None
        assert left[UDP].dport == tunnel.peer_port
        assert esp_bytes(left) == sealed


@pytest.fixture
def front(gateway: Gateway) -> Iterator[Wire]:
    """The host's gateway: the test, beside the real one."""
    wire = Wire("crypto", SWITCH)
    yield wire
    wire.close()


def request_of(header: Crypto, payload: bytes, **ether: str) -> Packet:
    return Ether(**{"src": FRONT_MAC, "dst": HOST_MAC, **ether}, type=ETHERTYPE) / Raw(
        header.pack() + payload
    )


def answer_at(front: Wire) -> tuple[Crypto, bytes]:
    frame = front.receive()
    assert frame is not None
    assert (frame.src, frame.dst, frame.type) == (HOST_MAC, FRONT_MAC, ETHERTYPE)
    return Crypto.unpack(frame)


async def test_the_host_says_that_an_sa_is_not_there(gateway: Gateway, front: Wire) -> None:
    for kind, answered in ((OPEN, OPENED), (SEAL, SEALED)):
        front.send(request_of(Crypto(kind=kind, slot=9, generation=1, length=20), bytes(to_inner(V4))))
        header, payload = answer_at(front)
        assert (header.kind, header.verdict, header.slot, payload) == (answered, KEY, 9, b"")


@pytest.mark.parametrize(
    ("changes", "cause"),
    [({"version": 2}, 2), ({"kind": OPENED}, 2), ({"kind": 0}, 2), ({"dst": "02:00:00:00:00:99"}, 1)],
    ids=str,
)
async def test_the_host_drops_what_is_no_request(
    gateway: Gateway, front: Wire, changes: dict[str, Any], cause: int
) -> None:
    ether = {"dst": changes.pop("dst")} if "dst" in changes else {}
    before = await host_drops(gateway)
    front.send(request_of(replace(Crypto(kind=OPEN), **changes), bytes(40), **ether))
    assert front.receive(QUIET) is None
    after = await host_drops(gateway)
    assert {it: count - before.get(it, 0) for it, count in after.items() if count != before.get(it, 0)} == {
        cause: 1
    }


async def test_the_host_takes_no_length_beyond_the_frame(gateway: Gateway, front: Wire) -> None:
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    found = cast(AsyncIterator[Any], switch(gateway).host.read([fy.P4TableEntry("host_in")]))
    [served] = [it async for it in found if it.match]
    header = Crypto(kind=OPEN, slot=tunnel.number, generation=served.match["generation"], length=1400)
    front.send(request_of(header, seal(tunnel, to_server(V4), 1)))
    header, payload = answer_at(front)
    assert (header.kind, header.verdict, payload) == (OPENED, MALFORMED, b"")


async def host_drops(gateway: Gateway) -> dict[int, int]:
    cells = cast(AsyncIterator[Any], switch(gateway).host.read([fy.P4CounterEntry("drops")]))
    return {it.index: it.packet_count async for it in cells if it.packet_count}
