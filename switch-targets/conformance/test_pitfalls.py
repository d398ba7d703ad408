"""The published prototype's defects that a data plane can have: none is here. Rekeying (12) is in test_site_to_site.py."""

from __future__ import annotations

import grpc
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from finsy.proto import p4r, p4r_grpc
from gateway_authority import Authority
from gateway_entries import V4, V6, Family, Limits, bypass
from gateway_rig import (
    QUIET,
    Drop,
    Gateway,
    build,
    esp_bytes,
    ip_header,
    new_tunnel,
    open_frame,
    seal,
    to_inner,
    to_server,
)
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

pytestmark = pytest.mark.slow


async def test_pitfall_01_forged_packets_do_not_pass(gateway: Gateway) -> None:
    """However good the route behind the tunnel is."""
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    good = seal(tunnel, to_server(V4, bytes(60)), 1)
    for at in range(0, len(good), 4):
        forged = bytearray(good)
        forged[at] ^= 0x80
        gateway.wan.send(gateway.esp(tunnel, bytes(forged)))
    assert gateway.lan.receive(QUIET) is None
    assert sum((await gateway.drops()).values()) == len(range(0, len(good), 4))


async def test_pitfall_02_no_sa_no_packet(gateway: Gateway) -> None:
    """The clear packet never leaves on the WAN, although there is a route for it."""
    tunnel = new_tunnel()
    await gateway.insert(tunnel.spd_out())
    async with gateway.expect_drops(Drop.NO_SA):
        gateway.lan.send(gateway.on_lan(to_inner(V4)))


async def test_pitfall_03_policy_after_opening_and_by_side(gateway: Gateway) -> None:
    tunnel, other = new_tunnel(), new_tunnel(number=2, spi_in=0x1002, spi_out=0x2003)
    await gateway.insert(tunnel.entries(), other.sad_in())
    stranger = build(ip_header(V4, "10.99.0.6", V4.server), b"")
    for used, packet in ((tunnel, stranger), (other, to_server(V4))):
        async with gateway.expect_drops(Drop.SELECTOR):
            gateway.wan.send(gateway.seal(used, packet, 1))
    await gateway.insert(bypass(2, V4.server, V4.elsewhere))
    for packet in (to_server(V4), to_inner(V4), build(ip_header(V4, V4.server, V4.elsewhere), b"")):
        async with gateway.expect_drops(Drop.POLICY):
            gateway.wan.send(gateway.on_wan(packet))


@pytest.mark.parametrize("outer", [V4, V6], ids=["v4", "v6"])
@pytest.mark.parametrize("port", [40123, 0], ids=["nat-t", "esp"])
async def test_pitfall_04_lengths_come_first(gateway: Gateway, outer: Family, port: int) -> None:
    """An ESP packet of every length that is too short for one."""
    tunnel = new_tunnel(outer=outer, peer_port=port)
    await gateway.insert(tunnel.entries())
    good = seal(tunnel, to_server(V4), 1)
    for length in range(len(good)):
        gateway.wan.send(gateway.esp(tunnel, good[:length]))
    assert gateway.lan.receive(QUIET) is None
    assert sum((await gateway.drops()).values()) == len(good)
    gateway.wan.send(gateway.esp(tunnel, good))
    assert gateway.lan.receive() is not None


async def test_pitfall_05_padding_replay_and_dummies(gateway: Gateway) -> None:
    """scapy checks neither padding nor alignment, so this does: RFC 4303 section 2.4."""
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    for sequence, size in enumerate(range(9), start=1):
        esp = esp_bytes(await gateway.seals(tunnel, to_inner(V4, bytes(size))))
        key, salt = tunnel.key_out[:32], tunnel.key_out[32:]
        header = esp[:4] + bytes(4) + esp[4:8]
        plain = AESGCM(key).decrypt(salt + esp[8:16], esp[16:], header)
        pad = plain[-2]
        assert (len(plain) % 4, plain[-1]) == (0, 4)
        assert plain[-2 - pad : -2] == bytes(range(1, pad + 1))
        assert len(plain) == 28 + size + pad + 2
        assert int.from_bytes(esp[4:8]) == sequence
    frame = gateway.seal(tunnel, to_server(V4), 1)
    gateway.wan.send(frame)
    assert gateway.lan.receive() is not None
    async with gateway.expect_drops(Drop.REPLAY):
        gateway.wan.send(frame)


async def test_pitfall_06_fragments_ids_and_congestion(gateway: Gateway) -> None:
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    fragment = IP(src=V4.inner, dst=V4.server, proto=17, id=4711, frag=5, flags="MF") / Raw(bytes(64))
    gateway.wan.send(gateway.seal(tunnel, fragment, 1))
    arrived = gateway.lan.receive()
    assert arrived is not None
    assert (arrived[IP].id, arrived[IP].frag, str(arrived[IP].flags)) == (4711, 5, "MF")
    marked = to_server(V4, b"data", tos=2)
    gateway.wan.send(gateway.seal(tunnel, marked, 2, tos=3))
    arrived = gateway.lan.receive()
    assert arrived is not None
    assert arrived[IP].tos == 3


async def test_pitfall_07_the_soft_limit_eats_nothing(gateway: Gateway) -> None:
    """Nor is it a single moment: every packet beyond it passes."""
    limits = Limits(soft_packets=1)
    tunnel = new_tunnel(limits_in=limits, limits_out=limits)
    await gateway.insert(tunnel.entries())
    for sequence in range(1, 5):
        await gateway.opens(tunnel, sequence)
        assert open_frame(tunnel, await gateway.seals(tunnel))[UDP].payload.load == b"answer"


async def test_pitfall_11_only_the_controller_is_heard(
    gateway: Gateway, address: str, authority: Authority
) -> None:
    """A client without a certificate of the authority gets no P4Runtime, and so no pipeline to push."""
    stranger = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    for credentials in (stranger, None):
        channel = (
            grpc.aio.secure_channel(address, credentials)
            if credentials
            else grpc.aio.insecure_channel(address)
        )
        async with channel:
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await p4r_grpc.P4RuntimeStub(channel).SetForwardingPipelineConfig(
                    p4r.SetForwardingPipelineConfigRequest(device_id=1), timeout=3
                )
            assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE
