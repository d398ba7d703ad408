"""`sluice trace` and `sluice check`: what a P4 developer sees."""

from __future__ import annotations

import json
import stat
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from gateway_entries import V4
from gateway_rig import Gateway, new_tunnel, to_server
from sluice_rig import Sluice, flat

PROGRAMS = Path(__file__).parent / "programs"
HASHES = [str(PROGRAMS / "packet_hash.json"), str(PROGRAMS / "packet_hash.p4info.txtpb")]
FRAME = "0200000000010200000000021234" + "5a" * 46
# The ids are those of packet_hash.p4info.txtpb.
ENTRY = """
updates {{ type: INSERT entity {{ table_entry {{
  table_id: {table}
  match {{ field_id: 1 exact {{ value: "\\001" }} }}
  action {{ action {{ action_id: {action} params {{ param_id: 1 value: "{key}" }} }} }}
}} }} }}
"""


def id_of(name: str) -> int:
    before = Path(HASHES[1]).read_text().split(f'name: "{name}"')[0]
    return int(before.rsplit("id: ", 1)[1].split()[0])


def sluice_says(program: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stdout + done.stderr


def offline(program: Path, *words: str) -> tuple[int, str]:
    return sluice_says(program, "trace", "--json", HASHES[0], "--p4info", HASHES[1], *words)


def test_a_program_is_checked(program: Path, tmp_path: Path) -> None:
    code, said = sluice_says(program, "check", *HASHES)
    assert code == 0
    assert "1 tables" in said
    assert "table Hash.job" in said
    broken = tmp_path / "broken.json"
    broken.write_text(
        Path(HASHES[0]).read_text().replace('"match_type" : "exact"', '"match_type" : "exactly"')
    )
    code, said = sluice_says(program, "check", str(broken), HASHES[1])
    assert code == 1
    assert "match_type" in said
    assert "exactly" in said


def test_a_miss_is_told_step_by_step(program: Path) -> None:
    code, said = offline(program, "--port", "1", FRAME)
    assert code == 0
    lines = [line.strip() for line in said.splitlines()]
    for line in (
        "packet 1: port 1, 60 bytes",
        "parser start",
        "ethernet dst=0x020000000001 src=0x020000000002 type=0x1234",
        "table Hash.job [standard.ingress_port=0x0001] miss -> Hash.idle()",
        "answer is valid now",
        "egress to port 1",
    ):
        assert line in lines
    assert lines[-1].startswith("sent to port 1: 168 bytes 00")


def test_a_key_is_not_told(program: Path, tmp_path: Path) -> None:
    entries = tmp_path / "entries.txtpb"
    key = "".join(f"\\{byte:03o}" for byte in range(1, 33))
    names = {"table": id_of("Hash.job"), "action": id_of("Hash.siphash_2_4")}
    entries.write_text(ENTRY.format(**names, key=key))
    code, said = offline(program, "--entries", str(entries), "--port", "1", "--format", "json", FRAME)
    assert code == 0
    steps: list[dict[str, Any]] = json.loads(said)["steps"]
    table = next(step for step in steps if step["step"] == "table")
    assert table["hit"]
    assert table["entry"]["match"] == {"standard.ingress_port": "0x0001"}
    assert table["args"] == {"key": "<256 bits>"}
    assert {"step": "called", "object": "Hash.hasher", "method": "siphash_2_4"} in steps
    # No key-encryption key has wrapped it.
    assert {"step": "changed", "field": "metadata_t.verdict", "value": "0x01"} in steps
    assert bytes(range(1, 33)).hex() not in said


def test_only_packets_that_fit_are_told(program: Path) -> None:
    other = FRAME.replace("1234", "9999")
    for words, told in [
        ([], ["packet 1:", "packet 2:"]),
        (["--where", "ethernet.type=0x1234"], ["packet 1:"]),
        (
            ["--where", "hdr.ethernet.dst=02:00:00:00:00:01/40", "--where", "ethernet.type=39321"],
            ["packet 2:"],
        ),
        (["--match", "12:9000/f000"], ["packet 2:"]),
        (["--dropped"], []),
    ]:
        code, said = offline(program, "--port", "1", *words, FRAME, other)
        assert code == 0
        assert [line[:9] for line in said.splitlines() if line.startswith("packet")] == told


def test_a_refused_entry_is_named(program: Path, tmp_path: Path) -> None:
    entries = tmp_path / "entries.txtpb"
    entries.write_text(ENTRY.format(table=id_of("Hash.job"), action=12345, key="\\001"))
    code, said = offline(program, "--entries", str(entries), "--port", "1", FRAME)
    assert code == 1
    assert "update 1" in said
    assert "12345" in said


@pytest.fixture
def control(arguments: dict[str, str], tmp_path: Path) -> str:
    arguments["--control"] = str(tmp_path / "control")
    return arguments["--control"]


class Tracing:
    """`sluice trace` on the running switch."""

    def __init__(self, program: Path, control: str, sluice: Sluice) -> None:
        self._words = [str(program), "trace", "--control", control]
        self._sluice = sluice
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> subprocess.Popen[str]:
        begun = self._sluice.log.read_text().count("a trace begins")
        process = subprocess.Popen([*self._words, *words], stdout=subprocess.PIPE, text=True)
        self._started.append(process)
        deadline = time.monotonic() + 20
        while self._sluice.log.read_text().count("a trace begins") == begun and time.monotonic() < deadline:
            time.sleep(0.01)
        return process

    def says(self, *words: str) -> tuple[int, str]:
        return sluice_says(Path(self._words[0]), *self._words[1:], *words)

    def stop(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


@pytest.fixture
def tracing(control: str, program: Path, sluice: Sluice) -> Iterator[Tracing]:
    tracing = Tracing(program, control, sluice)
    yield tracing
    tracing.stop()


@pytest.mark.slow
async def test_real_packets_are_told_and_forwarded(tracing: Tracing, wired: Gateway) -> None:
    client = tracing.start("--port", "1", "--count", "2", "--match", "12:0800")
    tunnel = new_tunnel()
    await wired.insert(tunnel.entries())
    for sequence in (1, 2, 3):
        wired.wan.send(wired.seal(tunnel, to_server(V4), sequence))
        assert wired.lan.receive() is not None
    said, _ = client.communicate(timeout=20)
    assert client.returncode == 0
    assert said.count("packet ") == 2
    assert "table GatewayIngress.open.sad_in" in said
    assert "<576 bits>" in said
    assert "recirculated" in said
    assert "sent to port 2" in said


@pytest.mark.slow
async def test_a_packet_is_found_in_traffic(tracing: Tracing, wired: Gateway) -> None:
    tunnel = new_tunnel()
    await wired.insert(tunnel.entries())
    sequence = count(1)
    for words, told in [
        (["--dropped"], "bad_spi"),
        # The inner packet's field: the header is extracted after decryption.
        (["--where", f"ipv4.dst={V4.server}/24"], "sent to port 2"),
    ]:
        client = tracing.start(*words)
        code, said = tracing.says("--port", "1")
        assert (code, "another trace is under way" in said) == (1, True)
        wired.wan.send(wired.seal(tunnel, to_server(V4), next(sequence)))
        wired.wan.send(wired.seal(new_tunnel(spi_in=0x7777), to_server(V4), next(sequence)))
        said, _ = client.communicate(timeout=20)
        assert said.count("packet ") == 1
        assert told in said


@pytest.mark.slow
def test_the_control_socket_is_the_owners(control: str, sluice: Sluice) -> None:
    assert stat.S_IMODE(Path(control).stat().st_mode) == 0o600


@pytest.mark.slow
def test_the_control_socket_takes_no_other_files_place(
    rig: None, program: Path, control: str, arguments: dict[str, str], tmp_path: Path
) -> None:
    Path(control).write_text("another's")
    with pytest.raises(RuntimeError, match="cannot make the control socket"):
        Sluice(program, flat(arguments), tmp_path / "sluice.log")
    assert Path(control).read_text() == "another's"
