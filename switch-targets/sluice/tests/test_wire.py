"""Behaviour of sluice on wires, for any program. switch-targets/conformance tests the gateway's program."""

from __future__ import annotations

import asyncio

import finsy as fy
import pytest
import sluice_entries as entries
from gateway_entries import V4, Site
from gateway_rig import QUIET, Gateway, esp_bytes, new_tunnel, to_server
from gateway_wires import Wire, run
from scapy.layers.l2 import ARP
from scapy.packet import Packet
from sluice_rig import SWITCH, Controller, Sluice

pytestmark = pytest.mark.slow


def arp_request(gateway: Gateway) -> Packet:
    return gateway.on_wan(ARP(op=1, pdst=V4.gateway), dst="ff:ff:ff:ff:ff:ff")


async def test_nothing_is_forwarded_without_a_program(sluice: Sluice, wan: Wire, lan: Wire) -> None:
    bare = Gateway(None, Site(), wan, lan, lan)  # type: ignore[arg-type]
    wan.send(bare.seal(new_tunnel(), to_server(V4), 1))
    wan.send(arp_request(bare))
    assert lan.receive(QUIET) is None
    assert wan.receive(QUIET) is None


async def test_sequence_numbers_go_on_when_the_program_is_pushed_again(
    controller: Controller, wan: Wire, lan: Wire
) -> None:
    tunnel = new_tunnel()
    sequences: list[int] = []
    for _ in range(2):
        async with controller(p4force=True) as switch:
            gateway = Gateway(switch, Site(), wan, lan, lan)
            await switch.insert([*entries.site(), *tunnel.entries()])
            sequences.append(int.from_bytes(esp_bytes(await gateway.seals(tunnel))[4:8]))
            wan.send(gateway.seal(tunnel, to_server(V4), 1))
            replayed = lan.receive(QUIET)
            assert (replayed is None) == (len(sequences) == 2)
    assert sequences == [1, 2]


async def test_a_digest_is_sent_again_after_its_acknowledgement(wired: Gateway) -> None:
    lists: asyncio.Queue[fy.P4DigestList] = asyncio.Queue()
    await wired.switch.insert([fy.P4DigestEntry("bad_spi_t", max_list_size=1, ack_timeout_ns=60_000_000_000)])

    async def collect() -> None:
        async for digests in wired.switch.read_digests("bad_spi_t"):
            lists.put_nowait(digests)

    collecting = asyncio.create_task(collect())
    await asyncio.sleep(0)
    unknown = wired.seal(new_tunnel(spi_in=0x9999), to_server(V4), 1)
    wired.wan.send(unknown)
    first = await asyncio.wait_for(lists.get(), 2)
    assert first.data[0]["spi"] == 0x9999
    wired.wan.send(unknown)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lists.get(), QUIET)
    await wired.switch.write([first.ack()])
    await asyncio.sleep(0.05)
    wired.wan.send(unknown)
    assert (await asyncio.wait_for(lists.get(), 2)).list_id > first.list_id
    collecting.cancel()


async def test_a_flood_of_control_does_not_stop_packets(wired: Gateway) -> None:
    tunnel = new_tunnel()
    await wired.insert(tunnel.entries())

    async def write() -> None:
        for n in range(20):
            many = [tunnel.but(number=2 + m, spi_in=0x10000 + m).sad_in() for m in range(100)]
            await (wired.switch.insert(many) if n % 2 == 0 else wired.switch.delete(many))

    writing = asyncio.create_task(write())
    for sequence in range(1, 101):
        wired.wan.send(wired.seal(tunnel, to_server(V4), sequence))
        await asyncio.sleep(0.002)
    await writing
    assert len(wired.lan.drain()) == 100


async def test_a_port_comes_back_with_its_interface(wired: Gateway) -> None:
    run("ip", "-n", SWITCH, "link", "set", "wan", "down")
    await asyncio.sleep(0.2)
    run("ip", "-n", SWITCH, "link", "set", "wan", "up")
    for _ in range(30):
        wired.wan.send(arp_request(wired))
        if wired.wan.receive(QUIET) is not None:
            return
    pytest.fail("no answer three seconds after the interface came back")


async def test_frames_beyond_the_mtu_are_dropped_and_logged(wired: Gateway, sluice: Sluice) -> None:
    tunnel = new_tunnel()
    await wired.insert(tunnel.entries())
    run("ip", "-n", SWITCH, "link", "set", "lan", "mtu", "600")
    try:
        wired.wan.send(wired.seal(tunnel, to_server(V4, bytes(1000)), 1))
        assert wired.lan.receive(QUIET) is None
        wired.wan.send(wired.seal(tunnel, to_server(V4, bytes(500)), 2))
        assert wired.lan.receive() is not None
    finally:
        run("ip", "-n", SWITCH, "link", "set", "lan", "mtu", "1500")
    await sluice.says("longer than the MTU")
