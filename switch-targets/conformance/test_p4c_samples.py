"""p4c's packet tests for v1model, on the process: `sluice dev`, P4Runtime, and wires between namespaces.

They need p4c-bm2-ss on the PATH, and CULVERT_P4C_TESTDATA, which names p4c's folder `testdata`. Programs in P4_14 are
taken as p4c has translated them to P4_16, because not every p4c is built with P4_14. Frames shorter than an Ethernet
header cross no Ethernet: a test that has such has tun interfaces for wires.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pytest
from finsy.proto import p4i, p4r, p4r_grpc
from gateway_target import GRPC_PORT, ROOT
from gateway_wires import PREFIX, Relay, connect, inside, namespaces, run
from google.protobuf import text_format
from stf import (
    Add,
    Call,
    CheckCounter,
    Command,
    Expect,
    Groups,
    Packet,
    SetDefault,
    Statement,
    number,
    statements,
)

pytestmark = pytest.mark.slow

SWITCH, PEERS = f"{PREFIX}-stf-switch", f"{PREFIX}-stf-peers"
COMPILER = "p4c-bm2-ss"
ETHERNET_HEADER = 14
FRAME_CHECK_SEQUENCE = 4  # the tests' bytes are those on a wire; bmv2 and sluice count without it
_ETH_P_ALL, _TUNSETIFF, _IFF_TUN = 3, 0x400454CA, 1
_OF_ANY_KIND = 0x88B5
ELECTION = p4r.Uint128(low=1)


def samples() -> list[tuple[Path, Path]]:
    """Programs for v1model, and their packet tests."""
    folder = os.environ.get("CULVERT_P4C_TESTDATA")
    if folder is None or shutil.which(COMPILER) is None:
        return []
    found = [(it.with_suffix(".p4"), it) for it in sorted(Path(folder, "p4_16_samples").rglob("*.stf"))]
    translated = Path(folder, "p4_14_samples_outputs")
    found += [
        (translated / f"{it.stem}.p4", it) for it in sorted(Path(folder, "p4_14_samples").glob("*.stf"))
    ]
    of_v1model = re.compile(r"#include\s*[<\"]v1model\.p4")
    return [(it, stf) for it, stf in found if it.exists() and of_v1model.search(it.read_text())]


@pytest.mark.skipif(bool(samples()), reason="the tests below run")
def test_the_samples_are_here() -> None:
    pytest.skip(f"needs {COMPILER} on the PATH, and p4c's testdata in CULVERT_P4C_TESTDATA")


class EthernetWire:
    """The far end of a veth pair."""

    def __init__(self, name: str) -> None:
        connect((SWITCH, name), (PEERS, name))
        kind = (socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self._socket = inside(PEERS, lambda: socket.socket(*kind))
        self._socket.bind((name, _ETH_P_ALL))

    def send(self, data: bytes) -> None:
        self._socket.send(data)

    def receive(self, timeout: float) -> bytes | None:
        deadline = time.monotonic() + timeout
        while select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
            frame, address = self._socket.recvfrom(65535)
            if address[2] != socket.PACKET_OUTGOING:
                return frame
        return None


class TunWire:
    """The far end of a tun interface: packets of any length, with the kernel's four bytes before each."""

    def __init__(self, name: str) -> None:
        def make() -> int:
            handle = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN))
            return handle

        self._handle = inside(SWITCH, make)
        run("ip", "-n", SWITCH, "link", "set", name, "up")

    def send(self, data: bytes) -> None:
        os.write(self._handle, struct.pack("!HH", 0, _OF_ANY_KIND) + data)

    def receive(self, timeout: float) -> bytes | None:
        if not select.select([self._handle], [], [], timeout)[0]:
            return None
        return os.read(self._handle, 65535)[4:]


Wire = EthernetWire | TunWire


class Wires:
    """The wires of all tests, made when a test first needs them."""

    def __init__(self) -> None:
        self._made: dict[str, Wire] = {}

    def of(self, test: list[Statement]) -> dict[int, tuple[str, Wire]]:
        """The switch's interface and its far end, by port."""
        frames = [it.data for it in test if isinstance(it, Packet)]
        expected = [it.pattern.rstrip("$") for it in test if isinstance(it, Expect) and it.pattern]
        short = any(len(it) < ETHERNET_HEADER for it in frames)
        short |= any(len(it) < 2 * ETHERNET_HEADER for it in expected)
        ports = {it.port for it in test if isinstance(it, Packet | Expect)}
        return {port: self._get(f"{'tun' if short else 'veth'}{port}", short) for port in sorted(ports)}

    def _get(self, name: str, short: bool) -> tuple[str, Wire]:
        if name not in self._made:
            self._made[name] = TunWire(name) if short else EthernetWire(name)
        return name, self._made[name]


@pytest.fixture(scope="session")
def wires() -> Iterator[Wires]:
    if os.geteuid() != 0:
        pytest.fail("needs root, for network namespaces")
    with namespaces(SWITCH, PEERS):
        yield Wires()


class Names:
    """The P4Info by the names that a packet test has for things: whole, or the end of one."""

    def __init__(self, p4info: Any) -> None:
        self.info = p4info

    def find(self, kind: str, name: str) -> Any:
        objects = getattr(self.info, kind)
        for test in (str.__eq__, str.endswith):
            if found := [it for it in objects if test(it.preamble.name, name)]:
                return found[0]
        raise LookupError(f"the P4Info has no {name} among its {kind}")

    def action(self, table: Any, call: Call) -> Any:
        listed = {ref.id for ref in table.action_refs}
        actions = [it for it in self.info.actions if it.preamble.id in listed]
        for test in (str.__eq__, str.endswith):
            if found := [it for it in actions if test(it.preamble.name, call.action)]:
                break
        else:
            raise LookupError(f"table {table.preamble.name} has no action {call.action}")
        made = p4r.Action(action_id=found[0].preamble.id)
        for param in found[0].params:
            made.params.add(param_id=param.id, value=short(number(call.arguments[param.name])))
        return p4r.TableAction(action=made)

    def entry(self, statement: Add) -> Any:
        table = self.find("tables", statement.table)
        fields = {it.name: it for it in table.match_fields}
        match: list[Any] = []
        for name, text in statement.match.items():
            name = re.sub(r"\$(\d+)", r"[\1]", name)
            ends = (f".{name}", f"{name}.$valid$")
            found = [key for key in fields if key == name] or [key for key in fields if key.endswith(ends)]
            if not found:
                raise LookupError(f"table {table.preamble.name} has no key {name}")
            if (made := field_match(fields[found[0]], text)) is not None:
                match.append(made)
        kinds = {it.MatchType.Name(it.match_type) for it in table.match_fields}
        prioritised = kinds & {"TERNARY", "RANGE", "OPTIONAL"}
        return p4r.Entity(
            table_entry=p4r.TableEntry(
                table_id=table.preamble.id,
                match=match,
                priority=statement.priority + 1 if prioritised else 0,
                action=self.action(table, statement.call),
            )
        )

    def default(self, statement: SetDefault) -> Any:
        table = self.find("tables", statement.table)
        action = self.action(table, statement.call)
        return p4r.Entity(
            table_entry=p4r.TableEntry(table_id=table.preamble.id, is_default_action=True, action=action)
        )


def short(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8))


def field_match(spec: Any, text: str) -> Any:
    """`None` for one that matches everything."""
    made = p4r.FieldMatch(field_id=spec.id)
    kind = spec.MatchType.Name(spec.match_type)
    if kind == "EXACT":
        made.exact.value = short(number(text))
    elif kind == "OPTIONAL":
        made.optional.value = short(number(text))
    elif kind == "LPM":
        value, _, length = text.partition("/")
        made.lpm.value, made.lpm.prefix_len = short(number(value)), int(length or spec.bitwidth)
    elif kind == "RANGE":
        low, _, high = text.partition("..")
        made.range.low, made.range.high = short(number(low)), short(number(high or low))
    elif "/" in text:
        value, mask = (number(it) for it in text.split("/"))
        made.ternary.value, made.ternary.mask = short(value & mask), short(mask)
        return made if mask else None
    else:
        base = 2 if text[:2].lower() == "0b" else 16
        digits = text[2:] if text[:2].lower() in ("0x", "0b") else f"{number(text):x}"
        mask = int("".join("0" if it == "*" else f"{base - 1:x}" for it in digits), base)
        mask = min(mask, (1 << spec.bitwidth) - 1)
        made.ternary.value, made.ternary.mask = short(int(digits.replace("*", "0"), base) & mask), short(mask)
        return made if mask else None
    return made


class Bench:
    """A test that runs: what it writes, sends and receives."""

    def __init__(self, client: Client, wires: dict[int, tuple[str, Wire]], settled: bool) -> None:
        self.client = client
        self.names = Names(client.p4info)
        self.groups = Groups()
        self.entries: dict[str, Any] = {}
        self.wires = {port: wire for port, (_, wire) in wires.items()}
        self.expected: dict[int, list[Expect]] = {}
        self.received: dict[int, list[bytes]] = {port: [] for port in self.wires}
        self._settled = settled

    async def run(self, test: list[Statement]) -> None:
        for statement in test:
            match statement:
                case Packet(port, data):
                    if self._settled:
                        self.gather(2.0)
                    self.wires[port].send(data)
                    await asyncio.sleep(0.01)
                case Expect(port):
                    self.expected.setdefault(port, []).append(statement)
                case Add(label=label):
                    entry = self.names.entry(statement)
                    await self.client.write(p4r.Update.INSERT, entry)
                    if label is not None:
                        self.entries[label] = entry.table_entry
                case CheckCounter():
                    await self._check_counter(statement)
                case SetDefault():
                    await self.client.write(p4r.Update.MODIFY, self.names.default(statement))
                case Command(name, arguments):
                    await self._command(name, *arguments)

    def gather(self, patience: float) -> None:
        """Takes what has come, and waits for what is expected."""
        for port, wire in self.wires.items():
            expected = [it for it in self.expected.get(port, []) if it.pattern is not None]
            while len(self.received[port]) < len(expected):
                if (data := wire.receive(patience)) is None:
                    break
                self.received[port].append(data)

    def compare(self) -> None:
        self.gather(2.0)
        for port, wire in self.wires.items():
            while (data := wire.receive(0.1)) is not None:
                self.received[port].append(data)
        for port, received in self.received.items():
            expected = self.expected.get(port, [])
            if expected and all(it.pattern is None for it in expected):
                continue
            shown = [it.hex() for it in received]
            assert len(received) == len(expected), f"port {port}: {expected}, but there came {shown}"
            for wanted, data in zip(expected, received, strict=True):
                assert wanted.fits(data), f"port {port}: {wanted.pattern}, but there came {data.hex()}"

    async def _command(self, name: str, *words: str) -> None:
        match name, words:
            case "mirroring_add", (session, port):
                await self._clones(session, [(number(port), 0)])
            case "mirroring_add_mc", (session, group):
                await self._clones(session, self.groups.members[number(group)])
            case "mirroring_get", (session,):
                entry = p4r.CloneSessionEntry(session_id=number(session))
                assert await self.client.read(engine(clone_session_entry=entry))
            case "mc_mgrp_create", (_,):
                pass
            case "mc_node_create", (instance, *ports):
                self.groups.node(instance, *ports)
            case "mc_node_associate", (group, node):
                known = number(group) in self.groups.members
                group_id = self.groups.associate(group, node)
                entry = p4r.MulticastGroupEntry(
                    multicast_group_id=group_id, replicas=replicas(self.groups.members[group_id])
                )
                kind = p4r.Update.MODIFY if known else p4r.Update.INSERT
                await self.client.write(kind, engine(multicast_group_entry=entry))
            case "register_read" | "register_write" | "register_reset", (array, *rest):
                await self._register(name, array, *map(number, rest))
            case "meter_get_rates" | "meter_set_rates" | "meter_array_set_rates", (array, *rest):
                await self._meter(name, array, *rest)
            case (("counter_read" | "counter_write"), _):
                raise NotImplementedError(f"{name} is in none of the tests that this was written for")
            case _:
                pass

    async def _clones(self, session: str, to: list[tuple[int, int]]) -> None:
        entry = p4r.CloneSessionEntry(session_id=number(session), replicas=replicas(to))
        await self.client.write(p4r.Update.INSERT, engine(clone_session_entry=entry))

    async def _check_counter(self, check: CheckCounter) -> None:
        """Waits for packets that are still on their way."""
        entry = p4r.Entity()
        if check.index.startswith("$"):
            entry.direct_counter_entry.table_entry.CopyFrom(self.entries[check.index[1:]])
        else:
            entry.counter_entry.counter_id = self.names.find("counters", check.counter).preamble.id
            entry.counter_entry.index.index = number(check.index)
        deadline = time.monotonic() + 2.0
        while True:
            [found] = await self.client.read(entry)
            kind = found.direct_counter_entry if check.index.startswith("$") else found.counter_entry
            count = kind.data.packet_count
            if check.unit == "bytes":
                count = kind.data.byte_count + count * FRAME_CHECK_SEQUENCE
            if check.holds(count) or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.02)
        assert check.holds(count), f"{check}, but it is {count}"

    async def _register(self, name: str, array: str, index: int | None = None, value: int = 0) -> None:
        entry = p4r.RegisterEntry(register_id=self.names.find("registers", array).preamble.id)
        if index is not None:
            entry.index.index = index
        if name == "register_read":
            assert await self.client.read(p4r.Entity(register_entry=entry))
            return
        entry.data.bitstring = short(value)
        await self.client.write(p4r.Update.MODIFY, p4r.Entity(register_entry=entry))

    async def _meter(self, name: str, array: str, *rest: str) -> None:
        entry = p4r.MeterEntry(meter_id=self.names.find("meters", array).preamble.id)
        rates = [it.split(":") for it in rest if ":" in it]
        if name != "meter_array_set_rates":
            entry.index.index = number(rest[0])
        if name == "meter_get_rates":
            assert await self.client.read(p4r.Entity(meter_entry=entry))
            return
        # Packets or bytes a microsecond, and a burst, for each of the two rates.
        for rate, (each, burst) in zip(("c", "p"), rates, strict=True):
            setattr(entry.config, f"{rate}ir", int(float(each) * 1_000_000))
            setattr(entry.config, f"{rate}burst", int(burst))
        await self.client.write(p4r.Update.MODIFY, p4r.Entity(meter_entry=entry))


def engine(**entry: Any) -> Any:
    return p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(**entry))


def replicas(to: list[tuple[int, int]]) -> list[Any]:
    return [p4r.Replica(port=short(port), instance=instance) for port, instance in to]


@contextlib.contextmanager
def started(interfaces: list[str], log: Path) -> Generator[str]:
    """`sluice dev` without a program. The address of its P4Runtime."""
    program = os.environ.get("CULVERT_SLUICE", str(ROOT / "target/release/sluice"))
    command = ["ip", "netns", "exec", SWITCH, program, "dev", "--grpc", f"127.0.0.1:{GRPC_PORT}"]
    command += [word for it in interfaces for word in ("-i", it)]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stderr=stream)
    relay = Relay(GRPC_PORT, SWITCH)
    try:
        deadline = time.monotonic() + 30
        while "ready" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.01)
        yield relay.address
    finally:
        relay.close()
        process.terminate()
        assert process.wait(timeout=30) == 0, log.read_text()


class Client:
    """The primary client, without a library that would refuse names which P4Runtime allows."""

    def __init__(self, channel: grpc.aio.Channel, program: Path) -> None:
        self.p4info = p4i.P4Info()
        text_format.Parse(program.with_suffix(".p4info.txtpb").read_text(), self.p4info)
        self._config = p4r.ForwardingPipelineConfig(p4info=self.p4info, p4_device_config=program.read_bytes())
        self._stub: Any = p4r_grpc.P4RuntimeStub(cast(Any, channel))
        self._stream = self._stub.StreamChannel()

    async def begin(self) -> None:
        bid = p4r.MasterArbitrationUpdate(device_id=1, election_id=ELECTION)
        await self._stream.write(p4r.StreamMessageRequest(arbitration=bid))
        assert (await self._stream.read()).arbitration.status.code == 0
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=1, election_id=ELECTION, config=self._config
        )
        request.action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        await self._stub.SetForwardingPipelineConfig(request)

    async def write(self, kind: Any, entity: Any) -> None:
        update = p4r.Update(type=kind, entity=entity)
        request = p4r.WriteRequest(device_id=1, election_id=ELECTION, updates=[update])
        await self._stub.Write(request)

    async def read(self, entity: Any) -> list[Any]:
        replies = self._stub.Read(p4r.ReadRequest(device_id=1, entities=[entity]))
        return [it async for reply in replies for it in reply.entities]


@pytest.fixture
def compiled(program: Path, tmp_path: Path) -> Path:
    """The program's JSON; its P4Info lies beside it."""
    json = tmp_path / f"{program.stem}.json"
    outputs = ["-o", str(json), "--p4runtime-files", str(json.with_suffix(".p4info.txtpb"))]
    done = subprocess.run([COMPILER, *outputs, str(program)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"p4c does not compile it: {done.stderr.strip().splitlines()[0]}")
    return json


@pytest.mark.parametrize(
    ("program", "stf"), [pytest.param(*it, id=f"{it[1].parent.name}/{it[1].stem}") for it in samples()]
)
async def test_the_sample_forwards_as_its_author_says(
    program: Path, stf: Path, compiled: Path, wires: Wires, tmp_path: Path
) -> None:
    test = list(statements(stf))
    ports = wires.of(test)
    first = next((it for it in test if isinstance(it, Packet | Expect)), None)
    interfaces = [f"{port}@{name}" for port, (name, _) in ports.items()]
    for _, wire in ports.values():
        while wire.receive(0) is not None:
            pass
    with started(interfaces, tmp_path / "sluice.log") as address:
        async with grpc.aio.insecure_channel(address) as channel:
            client = Client(channel, compiled)
            await client.begin()
            bench = Bench(client, ports, settled=isinstance(first, Packet))
            await bench.run(test)
            bench.compare()
