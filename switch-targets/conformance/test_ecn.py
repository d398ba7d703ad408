"""DSCP and ECN over the tunnel (RFC 6040)."""

from __future__ import annotations

import pytest
from gateway_entries import FAMILIES, Family
from gateway_rig import Drop, Gateway, new_tunnel, open_frame, to_inner, to_server
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

pytestmark = pytest.mark.slow
NOT_ECT, ECT1, ECT0, CE = range(4)
DSCP_IN, DSCP_OUT = 0x48, 0xB8
# Section 4.2, figure 4: (inner, outer) -> inner on its way.
DECAPSULATED = {
    NOT_ECT: {NOT_ECT: NOT_ECT, ECT0: NOT_ECT, ECT1: NOT_ECT, CE: None},
    ECT0: {NOT_ECT: ECT0, ECT0: ECT0, ECT1: ECT1, CE: CE},
    ECT1: {NOT_ECT: ECT1, ECT0: ECT1, ECT1: ECT1, CE: CE},
    CE: {NOT_ECT: CE, ECT0: CE, ECT1: CE, CE: CE},
}
families = pytest.mark.parametrize("family", FAMILIES, ids=lambda it: f"in{it.version}")
outers = pytest.mark.parametrize("outer", FAMILIES, ids=lambda it: f"over{it.version}")


def tos(frame: Packet) -> int:
    return frame[IP].tos if IP in frame else frame[IPv6].tc


@families
@outers
async def test_decapsulation(gateway: Gateway, family: Family, outer: Family) -> None:
    tunnel = new_tunnel(inner=family, outer=outer)
    await gateway.insert(tunnel.entries())
    sequence = 0
    for inner, row in DECAPSULATED.items():
        for outside, becomes in row.items():
            sequence += 1
            packet = to_server(family, b"data", tos=DSCP_IN | inner)
            frame = gateway.seal(tunnel, packet, sequence, tos=DSCP_OUT | outside)
            if becomes is None:
                async with gateway.expect_drops(Drop.ECN):
                    gateway.wan.send(frame)
                continue
            gateway.wan.send(frame)
            arrived = gateway.lan.receive()
            assert arrived is not None
            assert tos(arrived) == DSCP_IN | becomes, (inner, outside)
            assert arrived[UDP].payload == packet[UDP].payload


@families
@outers
async def test_encapsulation(gateway: Gateway, family: Family, outer: Family) -> None:
    """Section 4.1, normal mode: all eight bits are copied."""
    tunnel = new_tunnel(inner=family, outer=outer)
    await gateway.insert(tunnel.entries())
    for ecn in range(4):
        left = await gateway.seals(tunnel, to_inner(family, b"data", tos=DSCP_IN | ecn))
        assert tos(left) == DSCP_IN | ecn
        assert tos(open_frame(tunnel, left)) == DSCP_IN | ecn
