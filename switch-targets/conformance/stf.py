"""p4c's packet tests (`.stf`): one statement a line, and what they say in P4Runtime's terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path


class StfError(ValueError):
    """A statement that is not understood, with its line."""


@dataclass(frozen=True)
class Packet:
    port: int
    data: bytes


@dataclass(frozen=True)
class Expect:
    """Hexadecimal digits, `*` for any, a final `$` where the packet ends; `None` allows any number of any packets."""

    port: int
    pattern: str | None

    def fits(self, data: bytes) -> bool:
        digits, exact = (self.pattern or "").removesuffix("$"), (self.pattern or "").endswith("$")
        found = data.hex().upper()
        same = all(wanted in ("*", digit) for wanted, digit in zip(digits, found, strict=False))
        return same and len(found) >= len(digits) and (not exact or len(found) == len(digits))


@dataclass(frozen=True)
class Call:
    action: str
    arguments: dict[str, str]


@dataclass(frozen=True)
class Add:
    table: str
    priority: int
    """The greater wins."""
    match: dict[str, str]
    call: Call
    label: str | None = None
    """The entry's name in later statements."""


@dataclass(frozen=True)
class SetDefault:
    table: str
    call: Call


@dataclass(frozen=True)
class CheckCounter:
    counter: str
    index: str
    """A number, or `$` and the label of an entry."""
    unit: str = "packets"
    relation: str | None = None
    value: int = 0

    def holds(self, count: int) -> bool:
        return self.relation is None or RELATIONS[self.relation](count, self.value)


@dataclass(frozen=True)
class Command:
    """Commands for bmv2's command line: clone sessions, multicast groups, registers, meters, counters."""

    name: str
    arguments: tuple[str, ...]


Statement = Packet | Expect | Add | SetDefault | CheckCounter | Command
RELATIONS = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
COMMANDS = frozenset(
    (
        *(
            "mirroring_add",
            "mirroring_add_mc",
            "mirroring_get",
            "mc_mgrp_create",
            "mc_node_create",
            "mc_node_associate",
        ),
        *(
            "register_read",
            "register_write",
            "register_reset",
            "counter_read",
            "counter_write",
        ),
        *("meter_get_rates", "meter_set_rates", "meter_array_set_rates", "wait", "no_packet"),
    )
)
_CHECK = re.compile(r"check_counter\s+([^\s(]+)\(([^()]+)\)\s*(?:(packets|bytes)\s*([=!<>]+)\s*(\d+))?$")
_CALL = re.compile(r"(?P<action>[^\s()]+)\s*\((?P<arguments>[^()]*)\)\s*(?:=\s*(?P<label>\S+))?$")


def statements(path: Path) -> Iterator[Statement]:
    """# Errors
    StfError."""
    for number, text in enumerate(path.read_text().splitlines(), start=1):
        if line := text.split("#")[0].strip():
            try:
                yield _statement(line)
            except (ValueError, IndexError) as error:
                raise StfError(f"{path.name}:{number}: {line}: {error}") from error


def number(text: str) -> int:
    """Read a number in decimal, or with 0x, 0b, 0o."""
    return int(text, 0) if text[:2].lower() in ("0x", "0b", "0o") else int(text)


def _statement(line: str) -> Statement:
    name, *words = line.split()
    name = name.lower()
    if name == "packet":
        return Packet(int(words[0]), bytes.fromhex("".join(words[1:])))
    if name == "expect":
        return Expect(int(words[0]), "".join(words[1:]).upper() or None)
    if name in ("add", "setdefault"):
        return _write_statement(name, words[0], line.split(None, 2)[2])
    if found := _CHECK.match(line):
        counter, index, unit, relation, value = found.groups()
        return CheckCounter(counter, index, unit or "packets", relation, int(value or 0))
    if name in COMMANDS:
        return Command(name, tuple(words))
    raise ValueError(f"{name} is not known")


def _write_statement(name: str, table: str, rest: str) -> Statement:
    found = _CALL.search(rest)
    if found is None:
        raise ValueError("an action with parentheses is missing")
    arguments = [it.split(":", 1) for it in found["arguments"].split(",") if it.strip()]
    call = Call(found["action"], {name.strip(): value.strip() for name, value in arguments})
    if name == "setdefault":
        return SetDefault(table, call)
    fields = rest[: found.start()].split()
    priority = int(fields.pop(0)) if fields and fields[0].isdigit() else 0
    match = dict(it.split(":", 1) for it in fields)  # type: ignore[misc]
    return Add(table, priority, match, call, found["label"])


@dataclass
class Groups:
    """Multicast groups as bmv2's command line makes them: nodes in the order of their creation."""

    nodes: list[tuple[int, list[int]]] = field(default_factory=list)
    members: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def node(self, instance: str, *ports: str) -> None:
        self.nodes.append((number(instance), [number(it) for it in ports]))

    def associate(self, group: str, node: str) -> int:
        """The group whose replicas, (port, instance), have changed."""
        instance, ports = self.nodes[number(node)]
        self.members.setdefault(number(group), []).extend((port, instance) for port in ports)
        return number(group)
