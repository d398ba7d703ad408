"""What the wires carry: ARP, ESP opened and sealed, and every kind of bad packet dropped under its cause.

The other end of the tunnel is scapy's ESP, an independent implementation.
"""

from __future__ import annotations

import asyncio
from typing import Any

import finsy as fy
import pytest
import sluice_entries as entries
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.ipsec import ESP, SecurityAssociation
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw
from sluice_entries import read
from sluice_rig import SWITCH, Controller, Sluice, Wire, run

pytestmark = pytest.mark.slow

QUIET = 0.2
DROP = {"MALFORMED": 1, "BAD_SPI": 5, "REPLAY": 7, "ICV": 8, "SELECTOR": 12, "POLICY": 13, "NO_SA": 14}


def association(spi: int, key: bytes) -> Any:
    header = IP(src="192.0.2.1", dst="192.0.2.2")
    return SecurityAssociation(
        ESP, spi=spi, crypt_algo="AES-GCM", crypt_key=key, tunnel_header=header, esn_en=True
    )


def outer(payload: Packet | bytes) -> Packet:
    """ESP in UDP from the laptop to the gateway."""
    packet = Ether(src=entries.ROUTER_MAC, dst=entries.WAN_MAC) / IP(src=entries.PEER, dst=entries.GATEWAY)
    return packet / UDP(sport=entries.PEER_PORT, dport=4500, chksum=0) / Raw(bytes(payload))


def request(size: int = 100, source: str = entries.INNER) -> Packet:
    return IP(bytes(IP(src=source, dst=entries.SERVER) / ICMP(id=1, seq=1) / Raw(bytes(size))))


def sealed(inner: Packet, sequence: int, spi: int = entries.SPI_IN, key: bytes = entries.KEY_IN) -> bytes:
    """The bytes from the SPI on."""
    return bytes(association(spi, key).encrypt(inner, seq_num=sequence)[ESP])


async def drops(switch: fy.Switch, cause: str) -> int:
    [cell] = await read(switch, fy.P4CounterEntry("drops", index=DROP[cause]))
    return cell.packet_count


async def test_nothing_is_forwarded_without_a_program(sluice: Sluice, wan: Wire, lan: Wire) -> None:
    wan.send(outer(sealed(request(), 1)))
    wan.send(Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(pdst=entries.GATEWAY))
    assert lan.receive(QUIET) is None
    assert wan.receive(QUIET) is None


async def test_arp_is_answered(gateway: fy.Switch, wan: Wire) -> None:
    asks = ARP(op=1, hwsrc=entries.ROUTER_MAC, psrc="198.51.100.1", pdst=entries.GATEWAY)
    wan.send(Ether(src=entries.ROUTER_MAC, dst="ff:ff:ff:ff:ff:ff") / asks)
    answer = wan.receive()
    assert answer is not None
    assert answer[Ether].dst == entries.ROUTER_MAC
    assert (answer[ARP].op, answer[ARP].hwsrc, answer[ARP].psrc) == (2, entries.WAN_MAC, entries.GATEWAY)
    wan.send(Ether(src=entries.ROUTER_MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, pdst="198.51.100.3"))
    assert wan.receive(QUIET) is None


async def test_esp_is_opened_and_forwarded(gateway: fy.Switch, wan: Wire, lan: Wire) -> None:
    await gateway.insert(entries.tunnel())
    for sequence, size in enumerate((0, 1, 2, 3, 100, 1300), start=1):
        inner = request(size)
        wan.send(outer(sealed(inner, sequence)))
        arrived = lan.receive()
        assert arrived is not None
        assert (arrived[Ether].src, arrived[Ether].dst) == (entries.LAN_MAC, entries.SERVER_MAC)
        assert arrived[IP].ttl == inner.ttl - 1
        assert bytes(arrived[IP].payload)[: 8 + size] == bytes(inner.payload)
    asked = fy.P4TableEntry("sad_in", counter_data=fy.P4CounterData())
    assert [it.counter_data.packet_count for it in await read(gateway, asked)] == [6]


async def test_answers_are_sealed(gateway: fy.Switch, wan: Wire, lan: Wire) -> None:
    await gateway.insert(entries.tunnel())
    for sequence, size in enumerate((0, 5, 1300), start=1):
        inner = IP(
            bytes(IP(src=entries.SERVER, dst=entries.INNER, tos=0x48) / ICMP(type=0) / Raw(bytes(size)))
        )
        lan.send(Ether(src=entries.SERVER_MAC, dst=entries.LAN_MAC) / inner)
        left = wan.receive()
        assert left is not None
        assert (left[Ether].src, left[Ether].dst) == (entries.WAN_MAC, entries.ROUTER_MAC)
        assert (left[IP].src, left[IP].dst, left[IP].tos) == (entries.GATEWAY, entries.PEER, 0x48)
        assert (left[UDP].sport, left[UDP].dport, left[UDP].chksum) == (4500, entries.PEER_PORT, 0)
        esp = ESP(bytes(left[UDP].payload))
        assert (esp.spi, esp.seq) == (entries.SPI_OUT, sequence)
        opened = association(entries.SPI_OUT, entries.KEY_OUT).decrypt(
            IP(src="192.0.2.1", dst="192.0.2.2") / esp
        )
        inner.ttl -= 1
        del inner.chksum
        assert bytes(opened[IP]) == bytes(inner)


async def test_bad_packets_are_dropped_under_their_cause(gateway: fy.Switch, wan: Wire, lan: Wire) -> None:
    await gateway.insert(entries.tunnel())
    good = sealed(request(), 1)
    wan.send(outer(good))
    assert lan.receive() is not None
    forged = bytearray(sealed(request(), 2))
    forged[40] ^= 1
    whole = bytes(outer(sealed(request(), 3)))
    stranger = sealed(request(source="10.99.0.6"), 4)
    unknown = sealed(request(), 5, spi=0x9999)
    for packet, cause in [
        (outer(good), "REPLAY"),
        (outer(bytes(forged)), "ICV"),
        (whole[:-20], "MALFORMED"),
        (outer(stranger), "SELECTOR"),
        (outer(unknown), "BAD_SPI"),
    ]:
        before = await drops(gateway, cause)
        wan.send(packet)
        assert lan.receive(QUIET) is None
        assert await drops(gateway, cause) == before + 1, cause
    wan.send(outer(sealed(request(), 2)))
    assert lan.receive() is not None, "a forged packet must not use up its sequence number"


async def test_nothing_leaves_in_clear(gateway: fy.Switch, wan: Wire, lan: Wire) -> None:
    answer = (
        Ether(src=entries.SERVER_MAC, dst=entries.LAN_MAC)
        / IP(src=entries.SERVER, dst=entries.INNER)
        / ICMP()
    )
    lan.send(answer)
    assert wan.receive(QUIET) is None
    assert await drops(gateway, "POLICY") == 1
    await gateway.insert([entries.spd_out()])
    lan.send(answer)
    assert wan.receive(QUIET) is None
    assert await drops(gateway, "NO_SA") == 1
    await gateway.insert([entries.sad_out(kek=bytes(32))])
    lan.send(answer)
    assert wan.receive(QUIET) is None


async def test_digests_reach_the_primary(gateway: fy.Switch, wan: Wire) -> None:
    await gateway.insert([fy.P4DigestEntry("bad_spi_t", max_list_size=1, ack_timeout_ns=60_000_000_000)])
    lists: asyncio.Queue[fy.P4DigestList] = asyncio.Queue()

    async def collect() -> None:
        async for digests in gateway.read_digests("bad_spi_t"):
            lists.put_nowait(digests)

    collecting = asyncio.create_task(collect())
    await asyncio.sleep(0)
    unknown = outer(sealed(request(), 1, spi=0x9999))
    wan.send(unknown)
    first = await asyncio.wait_for(lists.get(), 2)
    assert first.data == [
        {"dst": entries.ip(entries.GATEWAY), "spi": 0x9999, "src": entries.ip(entries.PEER)}
    ]
    wan.send(unknown)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lists.get(), QUIET)
    await gateway.write([first.ack()])
    await asyncio.sleep(0.05)
    wan.send(unknown)
    assert (await asyncio.wait_for(lists.get(), 2)).list_id > first.list_id
    collecting.cancel()


async def test_sequence_numbers_go_on_when_the_program_is_pushed_again(
    controller: Controller, wan: Wire, lan: Wire
) -> None:
    answer = (
        Ether(src=entries.SERVER_MAC, dst=entries.LAN_MAC)
        / IP(src=entries.SERVER, dst=entries.INNER)
        / ICMP()
    )
    sequences: list[int] = []
    packet = outer(sealed(request(), 1))
    for _ in range(2):
        async with controller(p4force=True) as switch:
            await switch.insert([*entries.ports(), *entries.routes(), *entries.tunnel()])
            lan.send(answer)
            left = wan.receive()
            assert left is not None
            sequences.append(ESP(bytes(left[UDP].payload)).seq)
            wan.send(packet)
            replayed = lan.receive(QUIET)
            assert (replayed is None) == (len(sequences) == 2)
    assert sequences == [1, 2]


async def test_a_flood_of_control_does_not_stop_packets(gateway: fy.Switch, wan: Wire, lan: Wire) -> None:
    await gateway.insert(entries.tunnel())

    async def write() -> None:
        for n in range(20):
            many = [entries.sad_in(spi=0x10000 + m, slot=1 + m) for m in range(100)]
            await (gateway.insert(many) if n % 2 == 0 else gateway.delete(many))

    writing = asyncio.create_task(write())
    for sequence in range(1, 101):
        wan.send(outer(sealed(request(), sequence)))
        await asyncio.sleep(0.002)
    await writing
    arrived = 0
    while lan.receive(QUIET) is not None:
        arrived += 1
    assert arrived == 100


async def test_a_port_comes_back_with_its_interface(gateway: fy.Switch, wan: Wire) -> None:
    asks = Ether(src=entries.ROUTER_MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, pdst=entries.GATEWAY)
    run("ip", "-n", SWITCH, "link", "set", "wan", "down")
    await asyncio.sleep(0.2)
    run("ip", "-n", SWITCH, "link", "set", "wan", "up")
    for _ in range(30):
        wan.send(asks)
        if wan.receive(0.1) is not None:
            return
    pytest.fail("no answer three seconds after the interface came back")


async def test_frames_beyond_the_mtu_are_dropped_and_said(
    gateway: fy.Switch, sluice: Sluice, wan: Wire, lan: Wire
) -> None:
    await gateway.insert(entries.tunnel())
    run("ip", "-n", SWITCH, "link", "set", "lan", "mtu", "600")
    try:
        wan.send(outer(sealed(request(1000), 1)))
        assert lan.receive(QUIET) is None
        wan.send(outer(sealed(request(500), 2)))
        assert lan.receive() is not None
    finally:
        run("ip", "-n", SWITCH, "link", "set", "lan", "mtu", "1500")
    assert "longer than the MTU" in sluice.log.read_text()
