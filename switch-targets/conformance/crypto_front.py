"""A gateway whose SAs a crypto host behind a port serves, programmed as one with an engine is (docs/crypto-port.md)."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import finsy as fy

Entity = fy.P4TableEntry | fy.P4DigestEntry
# The gateway's port to its first host; those to others follow.
PORT, HOST_PORT = 4, 1
FRONT_MAC, HOST_MAC = "02:00:00:00:04:01", "02:00:00:00:04:02"
# The parameters that the gateway keeps for the host's answer.
_KEPT = {
    "open": ("sa_id", "endpoint", "tag"),
    "seal": ("spi", "src", "dst", "sport", "dport", "endpoint", "tag"),
}


def front_entries(port: int = PORT) -> list[fy.P4TableEntry]:
    """The gateway's port to a host."""
    to_host = fy.Action("to_host", src_mac=FRONT_MAC, dst_mac=HOST_MAC)
    return [
        fy.P4TableEntry("port_role", match=fy.Match(port=port, vlan=0), action=fy.Action("set_crypto", mac=FRONT_MAC)),
        fy.P4TableEntry("crypto_port", match=fy.Match(port=port), action=to_host),
    ]  # fmt: skip


def host_entries() -> list[fy.P4TableEntry]:
    serve = fy.Action("serve", mac=HOST_MAC)
    return [fy.P4TableEntry("front", match=fy.Match(port=HOST_PORT), action=serve)]


@dataclass(frozen=True)
class _Served:
    """The three entries that take the place of one with an engine's action."""

    port: int
    asks: fy.P4TableEntry
    answered: fy.P4TableEntry
    host: fy.P4TableEntry

    @property
    def key(self) -> tuple[str, ...]:
        return str(self.port), self.host.table_id, *map(str, cast(Mapping[str, Any], self.host.match).items())


class FrontSwitch:
    """The gateway's switch: what is written to `sad_in` and `sad_out` goes to a host and to the gateway. The hosts share
    the slots.
    """

    def __init__(self, front: fy.Switch, *hosts: fy.Switch) -> None:
        self._front = front
        self.host = hosts[0]
        self._hosts = {PORT + number: host for number, host in enumerate(hosts)}
        # An SA that is found at two outer addresses has two entries that ask, and one slot.
        self._uses: Counter[tuple[str, ...]] = Counter()
        self._at: dict[str, _Served] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._front, name)

    async def insert(self, entries: Iterable[Entity]) -> None:
        asks: list[Entity] = []
        for entry in entries:
            if (served := _served(entry, len(self._hosts))) is None:
                asks.append(entry)
                continue
            await self._use(served)
            self._at[_place(entry)] = served
            asks.append(served.asks)
        await self._front.insert(asks)

    async def modify(self, entries: Iterable[Entity]) -> None:
        for entry in entries:
            if (served := _served(entry, len(self._hosts))) is None:
                await self._front.modify([entry])
                continue
            before = self._at[_place(entry)]
            if before.key == served.key:
                await self._hosts[served.port].modify([served.host])
                await self._front.modify([served.answered])
            else:
                await self._use(served)
                await self._front.modify([served.asks])
                await self._release(before)
            self._at[_place(entry)] = served

    async def delete(self, entries: Iterable[Entity]) -> None:
        entries = list(entries)
        await self._front.delete([_key(it) for it in entries])
        for entry in entries:
            if (served := self._at.pop(_place(entry), None)) is not None:
                await self._release(served)

    async def _use(self, served: _Served) -> None:
        self._uses[served.key] += 1
        if self._uses[served.key] == 1:
            await self._hosts[served.port].insert([served.host])
            await self._front.insert([served.answered])

    async def _release(self, served: _Served) -> None:
        self._uses[served.key] -= 1
        if self._uses[served.key] == 0:
            await self._front.delete([_key(served.answered)])
            await self._hosts[served.port].delete([_key(served.host)])


def _key(entry: Entity) -> Entity:
    if not isinstance(entry, fy.P4TableEntry):
        return entry
    return fy.P4TableEntry(entry.table_id, match=entry.match, priority=entry.priority)


def _place(entry: Entity) -> str:
    return f"{entry.table_id} {entry.match}" if isinstance(entry, fy.P4TableEntry) else ""


def _served(entry: Entity, hosts: int) -> _Served | None:
    if not isinstance(entry, fy.P4TableEntry):
        return None
    action = entry.action
    if not isinstance(action, fy.P4TableAction) or action.name not in _KEPT:
        return None
    args = dict(action.args)
    slot = args.pop("slot")
    generation = zlib.crc32(f"{args['wrapped_key']} {args.get('spi')} {args['esn']}".encode())
    port = PORT + slot % hosts
    sought = fy.Match(port=port, slot=slot, generation=generation)
    kept = {name: args[name] for name in _KEPT[action.name]}
    place = cast(Mapping[str, Any], entry.match)
    if action.name == "open":
        table, answer, spi = "in", "opened", place["spi"]
        asks = fy.Action("open_at", port=port, slot=slot, generation=generation)
    else:
        table, answer, spi = "out", "sealed", args["spi"]
        kept["sa_id"] = place["sa_id"]
        asks = fy.Action("seal_at", port=port, slot=slot, generation=generation)
    keys = {name: it for name, it in args.items() if name not in (*kept, "spi")}
    return _Served(
        port,
        asks=fy.P4TableEntry(entry.table_id, match=entry.match, action=asks),
        answered=fy.P4TableEntry(f"crypto_{table}", match=sought, action=fy.Action(answer, **kept)),
        host=fy.P4TableEntry(
            f"host_{table}",
            match=fy.Match(port=HOST_PORT, slot=slot, generation=generation),
            action=fy.Action(action.name, spi=spi, **keys),
        ),
    )
