"""`sluice reload` of a switch that connects to its controller, and of one whose ports are on AF_XDP."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from finsy.proto import p4r
from gateway_authority import Authority
from gateway_wires import Wire
from sluice_rig import Controller, Sluice
from test_dial import Controllers, arguments, version
from test_handover import SETTLED, Reloadable, Traffic, options, sluice, traffic
from test_xdp import PROGRAMS, attached, frame, given, words

__all__ = ("arguments", "options", "sluice", "traffic")
pytestmark = pytest.mark.slow


@pytest.fixture
def port(rig: None, infrastructure: Authority) -> Iterator[Controllers]:
    certificate = infrastructure.folder / "controller.pem", infrastructure.folder / "controller.key"
    made = Controllers(certificate, infrastructure.certificate)
    yield made
    made.close()


class TestDialled:
    @pytest.fixture
    def options(self, port: Controllers) -> dict[str, str]:
        return {"--dial": f"localhost:{port.port}"}

    async def test_the_new_process_connects_and_no_packet_is_lost(
        self, port: Controllers, sluice: Reloadable, traffic: Traffic, tmp_path: Path
    ) -> None:
        with traffic.outbound, traffic.inbound:
            for count in range(1, 4):
                await port.connected(count)
                async with port.client(tmp_path) as stub:
                    assert await version(stub) == "1.5.0"
                    # The tables of the process before.
                    read = p4r.ReadRequest(device_id=1)
                    read.entities.add().table_entry.SetInParent()
                    found = [it async for answer in stub.Read(read) for it in answer.entities]
                    assert len(found) > 5
                    request = p4r.GetForwardingPipelineConfigRequest(device_id=1)
                    assert (await stub.GetForwardingPipelineConfig(request)).config.p4info.tables
                done = sluice.reload()
                assert done.returncode == 0, done.stderr
                await asyncio.sleep(SETTLED)
            await port.connected(4)
        traffic.check()


class TestXdp:
    @pytest.fixture
    def control(self, tmp_path: Path) -> Path:
        return tmp_path / "control"

    @pytest.fixture
    def sluice(
        self, rig: None, program: Path, arguments: dict[str, str], control: Path, tmp_path: Path
    ) -> Iterator[Sluice]:
        command = [*words(arguments), "--control", str(control), *given()]
        switch = Sluice(program, command, tmp_path / "sluice.log")
        yield switch
        assert switch.stop() == 0

    async def test_the_reload_is_refused_and_the_switch_goes_on(
        self, sluice: Sluice, program: Path, controller: Controller, control: Path, wan: Wire, lan: Wire
    ) -> None:
        reload = [str(program), "reload", "--control", str(control)]
        wires = {"p4info": PROGRAMS / "wires.p4info.txtpb", "p4blob": PROGRAMS / "wires.json"}
        async with controller(**wires):
            for _ in range(2):
                done = await asyncio.to_thread(
                    subprocess.run, reload, capture_output=True, text=True, check=False, timeout=100
                )
                assert done.returncode != 0
                assert "is on AF_XDP" in done.stderr
                assert "restart" in done.stderr
                assert attached("wan")
                for source, target in ((wan, lan), (lan, wan)):
                    source.send(frame(1500))
                    assert bytes(target.receive() or b"") == bytes(frame(1500))
        assert sluice.process.poll() is None
