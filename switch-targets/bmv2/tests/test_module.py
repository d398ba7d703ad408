"""The extern module inside a real bmv2. Tests of the program are in switch-targets/conformance."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import finsy as fy
import pytest
from esp_peer import LEGACY
from gateway_authority import Authority
from gateway_entries import KEK, V4, wrap_key
from gateway_rig import QUIET, Drop, Gateway, esp_bytes, new_tunnel, to_inner, to_server
from gateway_target import Launch
from gateway_wires import Wire
from target_bmv2 import Bmv2Target

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

Start = Callable[..., Bmv2Target]
Connect = Callable[..., AbstractAsyncContextManager[fy.Switch]]
Rig = Callable[[fy.Switch], Gateway]


async def test_packets_of_every_alignment_cross(start: Start, connect: Connect, gateway: Rig) -> None:
    start()
    async with connect() as switch:
        site, tunnel = gateway(switch), new_tunnel()
        await site.insert(site.site.entries(), tunnel.entries())
        for sequence, size in enumerate([*range(18), 255, 1399, 1400], 1):
            left = await site.seals(tunnel, to_inner(V4, bytes(size)))
            assert int.from_bytes(esp_bytes(left)[4:8]) == sequence
            site.wan.send(site.seal(tunnel, to_server(V4, bytes(size)), sequence))
            arrived = site.lan.receive()
            assert arrived is not None
            assert bytes(arrived)[42:] == bytes(size)


async def test_a_wrapped_key_may_begin_with_zeros(start: Start, connect: Connect, gateway: Rig) -> None:
    keys = (os.urandom(36) for _ in range(100_000))
    key = next(key for key in keys if wrap_key(key) >> 8 * 47 == 0)
    start()
    async with connect() as switch:
        site, tunnel = gateway(switch), new_tunnel().but(key_in=key)
        await site.insert(site.site.entries(), tunnel.entries())
        await site.opens(tunnel, 1)


async def test_a_new_push_forgets_no_sequence_number(start: Start, connect: Connect, gateway: Rig) -> None:
    start()
    tunnel = new_tunnel()
    for sequence in (1, 2, 3):
        async with connect() as switch:
            site = gateway(switch)
            await site.insert(site.site.entries(), tunnel.entries())
            assert int.from_bytes(esp_bytes(await site.seals(tunnel))[4:8]) == sequence
            await site.opens(tunnel, sequence)
            async with site.expect_drops(Drop.REPLAY):
                site.wan.send(site.seal(tunnel, to_server(V4), 1))


async def test_a_legacy_suite_waits_for_permission(start: Start, connect: Connect, gateway: Rig) -> None:
    start()
    async with connect() as switch:
        site, tunnel = gateway(switch), new_tunnel(suite=LEGACY[0])
        await site.insert(site.site.entries(), tunnel.entries())
        await refuses(site)


class WithoutKek(Bmv2Target):
    @staticmethod
    def environment(launch: Launch) -> dict[str, str]:
        return {}


class ExposedKek(Bmv2Target):
    @staticmethod
    def environment(launch: Launch) -> dict[str, str]:
        launch.kek_file.chmod(0o644)
        return {"CULVERT_ESP_KEK": str(launch.kek_file)}


class NoSuchKek(Bmv2Target):
    @staticmethod
    def environment(launch: Launch) -> dict[str, str]:
        return {"CULVERT_ESP_KEK": str(launch.folder / "no-such-file")}


class UnknownSuite(Bmv2Target):
    @staticmethod
    def environment(launch: Launch) -> dict[str, str]:
        return {"CULVERT_ESP_KEK": str(launch.kek_file), "CULVERT_ESP_ALLOW": "rot13"}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (WithoutKek, "CULVERT_ESP_KEK is not set"),
        (ExposedKek, "open to others"),
        (NoSuchKek, "cannot be read"),
        (UnknownSuite, "names one that does not exist"),
    ],
)
async def test_without_an_engine_no_packet_passes_and_stderr_says_why(
    start: Start, connect: Connect, gateway: Rig, kind: type[Bmv2Target], reason: str
) -> None:
    target = start(kind)
    async with connect() as switch:
        site, tunnel = gateway(switch), new_tunnel()
        await site.insert(site.site.entries(), tunnel.entries())
        await refuses(site)
    said = target.log.read_text()
    assert reason in said
    assert KEK.hex() not in said


async def refuses(site: Gateway) -> None:
    tunnel = new_tunnel()
    async with site.expect_drops(Drop.KEY, Drop.KEY):
        site.lan.send(site.on_lan(to_inner(V4)))
        site.wan.send(site.seal(tunnel, to_server(V4), 1))


class WithoutModule(Bmv2Target):
    modules = ()

    def stop(self) -> None:
        """Kill bmv2: without its program, it crashes on the first packet."""
        self._process.kill()
        self._process.wait()


async def test_without_the_module_nothing_is_forwarded(start: Start, connect: Connect, gateway: Rig) -> None:
    target = start(WithoutModule)
    async with connect() as switch:
        site = gateway(switch)
        with pytest.raises(fy.P4ClientError):
            await site.insert(site.site.entries())
        site.lan.send(site.on_lan(to_inner(V4)))
        assert site.wan.receive(QUIET) is None
    assert "Invalid reference to extern type" in target.log.read_text()


def test_before_a_program_is_pushed_nothing_is_forwarded(start: Start, wires: dict[str, Wire]) -> None:
    start()
    for wire in wires.values():
        wire.send(bytes(64))
    assert [wire.receive(QUIET) for wire in wires.values()] == [None, None, None]


async def test_a_client_needs_a_certificate_of_ours(
    start: Start, connect: Connect, authority: Authority, tmp_path: Path
) -> None:
    start()
    async with connect():
        # bmv2 looks at no name, and gates no read: why keys cross P4Runtime wrapped (README).
        async with connect(
            channel_credentials=credentials(authority, authority, "stranger"),
            initial_election_id=1,
            p4force=False,
        ) as other:
            assert not other.is_primary
        foreign = Authority(tmp_path / "foreign")
        foreign.issue("controller", "culvert-controller", None)
        with pytest.raises(fy.P4ClientError):
            async with connect(
                channel_credentials=credentials(authority, foreign, "controller"), fail_fast=True
            ):
                pass


def credentials(trusted: Authority, issuer: Authority, name: str) -> fy.GRPCCredentialsTLS:
    return fy.GRPCCredentialsTLS(
        cacert=trusted.certificate,
        cert=issuer.folder / f"{name}.pem",
        private_key=issuer.folder / f"{name}.key",
    )
