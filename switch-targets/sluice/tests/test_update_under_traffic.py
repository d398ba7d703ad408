"""Another program while packets flow: what both programs forward is neither lost nor overtaken.

RECONCILE_AND_COMMIT takes the entries along; VERIFY_AND_SAVE, writes and COMMIT change to a program with its entries;
VERIFY_AND_COMMIT alone begins without entries, so that both programs forward only what needs none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
import sluice_entries as entries
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from exchange_entries import config as exchange
from exchange_entries import forward, insert
from finsy.proto import p4i, p4r
from gateway_authority import Authority
from gateway_entries import V4, Site, Tunnel
from gateway_rig import Gateway, new_tunnel, to_inner, to_server
from gateway_target import P4INFO, PROGRAM
from gateway_wires import Wire
from google.protobuf import text_format
from numbered_flow import NumberedFlow
from raw_client import Code, RawClient
from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw
from sluice_rig import Controller
from test_pipeline_update import other, other_ids

pytestmark = pytest.mark.slow

UPDATES = 24
PROGRAMS = Path(__file__).parent / "programs"
_HEAD = bytes.fromhex("000000000001 020000000002 88b5")
_MARK = b"number: "


def plain(number: int) -> bytes:
    return _HEAD + _MARK + number.to_bytes(8) + bytes(30)


def marked(frame: bytes) -> int | None:
    at = frame.find(_MARK)
    return None if at < 0 else int.from_bytes(frame[at + 8 : at + 16])


class TestASmallProgram:
    async def test_with_its_entries(self, address: str, infrastructure: Authority) -> None:
        async with RawClient(address, infrastructure) as client:
            await client.bid(1)
            await client.push("VERIFY_AND_COMMIT", exchange())
            assert await client.write(insert(forward(1, port=2))) == [Code.OK]
            with NumberedFlow("wan", "lan", plain, marked) as flow:
                for at in range(UPDATES // 3):
                    await client.push("RECONCILE_AND_COMMIT", other(other_ids))
                    await client.push("RECONCILE_AND_COMMIT", exchange())
                    await client.push("VERIFY_AND_SAVE", exchange())
                    many = [insert(forward(1 + it, port=2)) for it in range(1 + at)]
                    assert set(await client.write(*many)) == {Code.OK}
                    await client.push("COMMIT")
                    await asyncio.sleep(0.1)
            assert flow.sent > 20 * UPDATES
            assert flow.is_whole, flow.fault()

    async def test_without_entries(self, address: str, infrastructure: Authority) -> None:
        info = text_format.Parse((PROGRAMS / "wires.p4info.txtpb").read_text(), p4i.P4Info())
        program = (PROGRAMS / "wires.json").read_bytes()
        async with RawClient(address, infrastructure) as client:
            await client.bid(1)
            await client.push("VERIFY_AND_COMMIT", exchange(info, program))
            with NumberedFlow("wan", "lan", plain, marked) as flow:
                for at in range(UPDATES):
                    changed = exchange(info, program)
                    changed.cookie.cookie = at
                    await client.push("VERIFY_AND_COMMIT", changed)
                    await asyncio.sleep(0.03)
            assert flow.sent > 20 * UPDATES
            assert flow.is_whole, flow.fault()


class TestTheGateway:
    """Both directions of a tunnel: sequence numbers go on, and the replay window lets each packet in once."""

    @pytest.fixture
    async def site(self, controller: Controller, wan: Wire, lan: Wire) -> Any:
        async with controller() as switch:
            await switch.insert(entries.site())
            yield Gateway(switch, Site(), wan, lan, lan)

    async def test_a_tunnel_goes_on(self, site: Gateway) -> None:
        tunnel = new_tunnel()
        await site.insert(tunnel.entries())
        outbound = NumberedFlow("lan", "wan", answers(site), sequence_of(tunnel))
        inbound = NumberedFlow("wan", "lan", sealed(site, tunnel), marked)
        with outbound, inbound:
            for _ in range(UPDATES // 3):
                await push(site.switch, "RECONCILE_AND_COMMIT", gateway())
                await push(site.switch, "RECONCILE_AND_COMMIT", gateway(larger))
                await push(site.switch, "VERIFY_AND_SAVE", gateway())
                await site.insert(entries.site(), tunnel.entries())
                await push(site.switch, "COMMIT")
        assert min(outbound.sent, inbound.sent) > 20 * UPDATES
        assert outbound.is_whole, outbound.fault()
        assert inbound.is_whole, inbound.fault()


def gateway(change: Callable[[p4i.P4Info, Any], None] | None = None) -> p4r.ForwardingPipelineConfig:
    info, program = text_format.Parse(P4INFO.read_text(), p4i.P4Info()), json.loads(PROGRAM.read_text())
    if change:
        change(info, program)
    return exchange(info, json.dumps(program).encode())


def larger(info: p4i.P4Info, program: Any) -> None:
    """The table of the inbound associations."""
    spec = next(it for it in info.tables if it.preamble.alias == "sad_in")
    spec.size *= 2
    tables = [table for pipeline in program["pipelines"] for table in pipeline["tables"]]
    next(it for it in tables if it["name"] == spec.preamble.name)["max_size"] = spec.size


async def push(switch: fy.Switch, action: str, config: p4r.ForwardingPipelineConfig | None = None) -> None:
    number = p4r.SetForwardingPipelineConfigRequest.Action.Value(action)
    request = p4r.SetForwardingPipelineConfigRequest(device_id=switch.device_id, action=number, config=config)
    client: Any = switch._p4client
    await client.request(request)


def numbered() -> Packet:
    return UDP(sport=5000, dport=6000, chksum=0) / Raw(_MARK + bytes(8))


def answers(site: Gateway) -> Callable[[int], bytes]:
    """Packets of the server into the tunnel, by number."""
    template = bytes(site.on_lan(to_inner(V4, numbered())))
    at = template.index(_MARK) + len(_MARK)
    return lambda number: template[:at] + number.to_bytes(8) + template[at + 8 :]


def sequence_of(tunnel: Tunnel) -> Callable[[bytes], int | None]:
    spi = tunnel.spi_out.to_bytes(4)

    def sequence(frame: bytes) -> int | None:
        esp = frame[14 + 20 + 8 :]
        return int.from_bytes(esp[4:8]) if esp[:4] == spi else None

    return sequence


def sealed(site: Gateway, tunnel: Tunnel) -> Callable[[int], bytes]:
    """Packets of the peer: AES-GCM-256 in ESP with extended sequence numbers (RFC 4106), numbered as they are sealed."""
    inner = bytes(to_server(V4, numbered()))
    inner += bytes(range(1, 1 + -(len(inner) + 2) % 4)) + bytes([-(len(inner) + 2) % 4, 4])
    at = inner.index(_MARK) + len(_MARK)
    cipher, salt, spi = AESGCM(tunnel.key_in[:32]), tunnel.key_in[32:], tunnel.spi_in.to_bytes(4)
    template = bytes(site.esp(tunnel, bytes(8 + 8 + len(inner) + 16)))
    head = template[: 14 + 20 + 8]

    def frame(number: int) -> bytes:
        iv, low = number.to_bytes(8), number.to_bytes(4)
        content = inner[:at] + number.to_bytes(8) + inner[at + 8 :]
        return head + spi + low + iv + cipher.encrypt(salt + iv, content, spi + bytes(4) + low)

    return frame
