"""SA inserts a second by a P4Runtime client, and sluice's memory for an SA.

  this process ── starts ──► switch, in a namespace of its own
       └── starts ──► client, in the same namespace ── mTLS, batches of BATCH updates made before the clock starts ──►

An SA here is what one direction of a tunnel needs in the tables: its SAD entry, with a wrapped key of 576 bits and limits,
and the SPD entry that leads to it. What the ESP engine keeps of it comes with its first packet and is not in the figure.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "switch-targets/conformance"))

import grpc
from figures import Figure
from finsy.proto import p4i, p4r
from gateway_entries import KEK
from gateway_target import GRPC_PORT, P4INFO, PROGRAM, Launch, infrastructure
from gateway_wires import namespaces, run
from gateways import kind
from google.protobuf import text_format
from site_to_site import targets

NAMES = ("p4rt_inserts_s", "sa_bytes")
BATCH = 1000
TUNNELS = 50_000  # of the 65,536 that the gateway's tables hold
BMV2_TUNNELS = 10_000  # its ternary tables take longer for each entry more
RUNS = 3

_SERVICE = "/p4.v1.P4Runtime/"
_OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


async def measure(names: list[str]) -> list[Figure]:
    """The figures asked for, of NAMES. Raises RuntimeError, CalledProcessError."""
    ours = await asyncio.to_thread(_measured, "sluice", TUNNELS)
    figures: list[Figure] = []
    if "p4rt_inserts_s" in names:
        figure = Figure("p4rt_inserts_s", ours["inserts_s"], "1/s")
        if "bmv2" in targets():
            theirs = await asyncio.to_thread(_measured, "bmv2", BMV2_TUNNELS)
            figure = replace(figure, baseline="bmv2", baseline_value=theirs["inserts_s"])
        figures.append(figure)
    if "sa_bytes" in names:
        figures.append(Figure("sa_bytes", ours["sa_bytes"], "B"))
    return figures


def _measured(target: str, tunnels: int) -> dict[str, float]:
    """The client's output, in the switch's namespace."""
    space = f"culvert-bench-{os.getpid()}-inserts"
    with tempfile.TemporaryDirectory() as name, namespaces(space):
        folder = Path(name)
        authority = infrastructure(folder / "pki")
        run("ip", "-n", space, "link", "add", "wan", "type", "veth", "peer", "name", "lan")
        for interface in ("wan", "lan"):
            run("ip", "-n", space, "link", "set", interface, "up")
        switch = kind(target)(Launch(space, {1: "wan", 2: "lan"}, KEK, [], folder, authority))
        try:
            command = [
                "ip",
                "netns",
                "exec",
                space,
                sys.executable,
                __file__,
                str(folder / "pki"),
                str(tunnels),
            ]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        finally:
            switch.stop()
    return json.loads(done.stdout)


class Entries:
    """The gateway program's entries as protobuf, by the names in its P4Info."""

    def __init__(self) -> None:
        self.p4info = text_format.Parse(P4INFO.read_text(), p4i.P4Info())
        self.tables = {table.preamble.alias: table for table in self.p4info.tables}
        self.actions = {action.preamble.name: action for action in self.p4info.actions}

    def batches(
        self,
        table: str,
        count: int,
        kind: p4r.Update.Type.ValueType = p4r.Update.INSERT,
        *,
        first: int = 0,
        election_id: int = 1,
    ) -> list[bytes]:
        """Serialised requests for the entries of that many SAs, whose numbers begin with `first`."""
        updates = (
            p4r.Update(type=kind, entity=p4r.Entity(table_entry=self._entry(table, number)))
            for number in range(first, first + count)
        )
        return list(_requests(updates, election_id))

    def _entry(self, table: str, number: int) -> Any:
        make = {"sad_in": _sad_in, "sad_out": _sad_out, "spd_in": _spd_in, "spd_out": _spd_out}[table]
        match, action, params = make(number)
        info = self.tables[table]
        entry = p4r.TableEntry(table_id=info.preamble.id, priority=10 if table.startswith("spd") else 0)
        for field in info.match_fields:
            if field.name in match:
                made = entry.match.add(field_id=field.id)
                value = _bytes(match[field.name])
                if field.match_type == p4i.MatchField.EXACT:
                    made.exact.value = value
                else:
                    made.ternary.value, made.ternary.mask = value, b"\xff" * 16
        ids = {ref.id for ref in info.action_refs}
        found = next(
            it
            for it in self.p4info.actions
            if it.preamble.id in ids and it.preamble.name.endswith(f".{action}")
        )
        entry.action.action.action_id = found.preamble.id
        for param in found.params:
            entry.action.action.params.add(param_id=param.id, value=_bytes(params[param.name]))
        return entry


_LIMITS = {
    "soft_packets": 1 << 30, "soft_bytes": 1 << 40, "soft_seconds": 3000,
    "hard_packets": 1 << 31, "hard_bytes": 1 << 41, "hard_seconds": 3600,
}  # fmt: skip
_MAPPED = 0xFFFF << 32
_GATEWAY = _MAPPED | 0xC6336402
_SITE = _MAPPED | 0x0A140001


def _sa(number: int, direction: int) -> dict[str, int]:
    wrapped_key = int.from_bytes(f"{direction}{number:07}".encode() * 6)
    return {
        "slot": number, "suite": 2, "wrapped_key": wrapped_key, "esn": 1, "endpoint": number, "tag": 7, **_LIMITS
    }  # fmt: skip


def _sad_in(number: int) -> tuple[dict[str, int], str, dict[str, int]]:
    return (
        {"dst": _GATEWAY, "spi": 0x1000 + number},
        "open",
        {"sa_id": 2 * number, "replay_window": 1024, **_sa(number, 0)},
    )


def _sad_out(number: int) -> tuple[dict[str, int], str, dict[str, int]]:
    outer = {"src": _GATEWAY, "dst": _MAPPED | 0xCB007100 + number, "sport": 4500, "dport": 40123}
    return {"sa_id": 2 * number + 1}, "seal", {"spi": 0x2000 + number, **outer, **_sa(number, 1)}


def _spd_in(number: int) -> tuple[dict[str, int], str, dict[str, int]]:
    match = {"sa_id": 2 * number, "src": _MAPPED | 0x0A640000 + number, "dst": _SITE}
    return match, "permit", {"inner_mtu": 1400}


def _spd_out(number: int) -> tuple[dict[str, int], str, dict[str, int]]:
    match = {"role": 2, "src": _SITE, "dst": _MAPPED | 0x0A640000 + number}
    return match, "protect", {"sa_id": 2 * number + 1, "inner_mtu": 1400}


def _bytes(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8))


def _requests(updates: Iterator[Any], election_id: int) -> Iterator[bytes]:
    while batch := list(islice(updates, BATCH)):
        request = p4r.WriteRequest(device_id=1, election_id=p4r.Uint128(low=election_id), updates=batch)
        yield request.SerializeToString()


def channel(pki: Path, address: str) -> grpc.Channel:
    """The controller's, with the certificates of `infrastructure`."""
    root, key, chain = ((pki / name).read_bytes() for name in ("ca.pem", "controller.key", "controller.pem"))
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(root, key, chain), _OPTIONS)


def writer(there: Any) -> Callable[[bytes], bytes]:
    """P4Runtime's Write. Raises RpcError."""
    return there.unary_unary(f"{_SERVICE}Write")


class _Client:
    """Primary, with gateway.p4 pushed. Requests are bytes already."""

    def __init__(self, pki: Path, p4info: Any) -> None:
        self.channel = channel(pki, f"127.0.0.1:{GRPC_PORT}")
        update = p4r.MasterArbitrationUpdate(device_id=1, election_id=p4r.Uint128(low=1))
        first = p4r.StreamMessageRequest(arbitration=update).SerializeToString()
        self._open = True
        self._answers: Any = self.channel.stream_stream(f"{_SERVICE}StreamChannel")(self._stream(first))
        next(self._answers)
        config = p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=PROGRAM.read_bytes())
        push = p4r.SetForwardingPipelineConfigRequest(
            device_id=1,
            election_id=p4r.Uint128(low=1),
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=config,
        )
        self.channel.unary_unary(f"{_SERVICE}SetForwardingPipelineConfig")(push.SerializeToString())
        self._write = writer(self.channel)

    def _stream(self, first: bytes) -> Iterator[bytes]:
        yield first
        while self._open:
            time.sleep(0.05)

    def write(self, requests: list[bytes]) -> float:
        """Seconds; one request waits for the other."""
        began = time.perf_counter()
        for request in requests:
            self._write(request)
        return time.perf_counter() - began

    def close(self) -> None:
        self._open = False
        self._answers.cancel()
        self.channel.close()


def _resident(port: int) -> int:
    """Bytes of the process of this namespace that listens at the port."""
    listening = run("ss", "-Hltnp", f"sport = :{port}")
    pid = listening.partition("pid=")[2].partition(",")[0]
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def _client(pki: Path, tunnels: int) -> dict[str, float]:
    entries = Entries()
    client = _Client(pki, entries.p4info)
    try:
        inserts = entries.batches("sad_in", tunnels)
        deletes = entries.batches("sad_in", tunnels, p4r.Update.DELETE)
        others = [
            request
            for table in ("spd_in", "sad_out", "spd_out")
            for request in entries.batches(table, tunnels)
        ]
        before = _resident(GRPC_PORT)
        seconds = [client.write(inserts)]
        client.write(others)
        grown = _resident(GRPC_PORT) - before
        for _ in range(RUNS - 1):
            client.write(deletes)
            seconds.append(client.write(inserts))
    finally:
        client.close()
    return {"inserts_s": tunnels / median(seconds), "sa_bytes": grown / (2 * tunnels)}


if __name__ == "__main__":
    print(json.dumps(_client(Path(sys.argv[1]), int(sys.argv[2]))))
