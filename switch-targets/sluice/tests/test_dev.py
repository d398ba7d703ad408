"""`sluice dev`: a start without certificates, keys and controller, for this computer alone."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import finsy as fy
import grpc.aio
import pytest
from exchange_entries import IDS, P4INFO, PROGRAM
from finsy.proto import p4r, p4r_grpc
from gateway_rig import QUIET
from gateway_target import GRPC_PORT
from gateway_wires import Relay, Wire, run
from google.protobuf import text_format
from google.protobuf.wrappers_pb2 import StringValue
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from sluice_rig import PEERS, SWITCH, Sluice
from test_command_line import end
from test_exchange import A, frame

pytestmark = pytest.mark.slow

METRICS_PORT = 9187
PORTS = ["-i", "0@wan", "-i", "2@lan"]
FILES = [str(PROGRAM), str(P4INFO)]


@contextmanager
def running(program: Path, log: Path, *words: str) -> Generator[Sluice]:
    switch = Sluice(program, ["dev", *PORTS, *words], log)
    yield switch
    assert switch.stop() == 0, log.read_text()


@pytest.fixture
def entries(tmp_path: Path) -> Path:
    """Frames to A leave port 0."""
    action = p4r.Action(action_id=IDS["to_port"], params=[p4r.Action.Param(param_id=1, value=b"\0")])
    match = p4r.FieldMatch(field_id=1, exact=p4r.FieldMatch.Exact(value=bytes.fromhex(A.replace(":", ""))))
    entry = p4r.TableEntry(table_id=IDS["forward"], match=[match], action=p4r.TableAction(action=action))
    request = p4r.WriteRequest(
        updates=[p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(table_entry=entry))]
    )
    path = tmp_path / "entries.txtpb"
    path.write_text(text_format.MessageToString(request))
    return path


@pytest.fixture
def wires(rig: None) -> Iterator[tuple[Wire, Wire]]:
    wires = Wire("wan", PEERS), Wire("lan", PEERS)
    yield wires
    for wire in wires:
        wire.close()


def test_it_forwards_from_the_start(
    program: Path, entries: Path, wires: tuple[Wire, Wire], tmp_path: Path
) -> None:
    wan, lan = wires
    with running(program, tmp_path / "log", *FILES, "--entries", str(entries)) as switch:
        lan.send(frame(A))
        assert bytes(wan.receive() or b"") == frame(A)
        assert "DEVELOPMENT ONLY" in switch.log.read_text()


async def test_a_controller_needs_no_certificate_and_is_told_so(
    program: Path, rig: None, tmp_path: Path
) -> None:
    with running(program, tmp_path / "log", "--device-id", "0"):
        relay = Relay(GRPC_PORT, SWITCH)
        async with grpc.aio.insecure_channel(relay.address) as channel:
            stub: Any = p4r_grpc.P4RuntimeStub(channel)
            answer = await stub.Capabilities(p4r.CapabilitiesRequest())
            said = StringValue()
            assert answer.experimental.Unpack(said)
            assert "development only" in said.value
            request = p4r.GetForwardingPipelineConfigRequest(device_id=0)
            assert not (await stub.GetForwardingPipelineConfig(request)).HasField("config")
        relay.close()


async def test_a_controller_may_push_another_program(
    program: Path, entries: Path, wires: tuple[Wire, Wire], tmp_path: Path
) -> None:
    wan, lan = wires
    with running(program, tmp_path / "log", *FILES, "--entries", str(entries)):
        relay = Relay(GRPC_PORT, SWITCH)
        options = fy.SwitchOptions(p4info=P4INFO, p4blob=PROGRAM, p4force=True)
        async with fy.Switch("dev", relay.address, options):
            lan.send(frame(A))
            assert wan.receive(QUIET) is None
        relay.close()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--grpc", "0.0.0.0:9559"], "must be on 127.0.0.1 or [::1]"),
        (["--grpc", "[::]:9559"], "must be on 127.0.0.1 or [::1]"),
        (["--grpc", "192.0.2.1:9559"], "must be on 127.0.0.1 or [::1]"),
        (["--metrics", "0.0.0.0:9101"], "--metrics must be on 127.0.0.1 or [::1]"),
        *(
            (["--" + it, "x"], "For a gateway: sluice run")
            for it in ("cert", "key", "client-ca", "client-name", "kek")
        ),
        (["-i", "0@x"], "port 0 is given twice"),
        (["-i", "511@x"], "the port number must be 0 to 510"),
        (["-i", "x"], "must be NUMBER@INTERFACE"),
        ([str(PROGRAM)], "<P4INFO>"),
        (["--entries", "x"], "<JSON>"),
    ],
)
def test_bad_usage(rig: None, program: Path, words: list[str], reason: str) -> None:
    code, said = end(program, "dev", *PORTS, *words)
    assert code == 2, said
    assert reason in said


def test_files_that_do_not_fit_end_it_with_their_fault(
    rig: None, program: Path, entries: Path, tmp_path: Path
) -> None:
    code, said = end(program, "dev", *PORTS, str(P4INFO), str(P4INFO))
    assert (code, "p4_device_config" in said) == (1, True), said
    entries.write_text(entries.read_text().replace("INSERT", "MODIFY"))
    code, said = end(program, "dev", *PORTS, *FILES, "--entries", str(entries))
    assert (code, f"{entries}: update 1: " in said) == (1, True), said


def test_no_other_host_reaches_it(program: Path, wires: tuple[Wire, Wire], tmp_path: Path) -> None:
    """No other host reaches it even if the kernel takes packets for 127.0.0.1 from the network."""
    wan, _ = wires
    inside = ("ip", "netns", "exec", SWITCH)
    run(*inside, "sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1", "net.ipv4.conf.wan.route_localnet=1")
    run("ip", "-n", SWITCH, "address", "add", "10.99.0.1/24", "dev", "wan")
    run("ip", "-n", SWITCH, "neighbour", "add", "10.99.0.9", "lladdr", A, "dev", "wan", "nud", "permanent")
    try:
        with running(program, tmp_path / "log", "--metrics", f"127.0.0.1:{METRICS_PORT}"):
            own = run("ip", "-n", SWITCH, "-br", "link", "show", "wan").split()[2]

            def answer(port: int) -> str:
                syn = (
                    Ether(src=A, dst=own)
                    / IP(src="10.99.0.9", dst="127.0.0.1")
                    / TCP(sport=7, dport=port, seq=1)
                )
                wan.send(syn)
                while (packet := wan.receive(2)) is not None:
                    if TCP in packet:
                        return str(packet[TCP].flags)
                return ""

            assert answer(GRPC_PORT) == "RA"
            assert answer(METRICS_PORT) == "RA"
            listener = subprocess.Popen([*inside, "python3", "-c", LISTEN], stdout=subprocess.PIPE, text=True)
            assert listener.stdout is not None
            port = int(listener.stdout.readline())
            try:
                assert answer(port) == "SA", "what is not bound to the loopback interface is reached"
            finally:
                listener.kill()
                listener.wait()
    finally:
        run("ip", "-n", SWITCH, "address", "flush", "dev", "wan")


LISTEN = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
time.sleep(60)
"""
