"""The record of the network's name servers: their order, and whether to wait for TXT. Pure.

   in its place ──► silent, or slow three times in a row ──► last in the order for 5 s, then twice as long, at most 60 s
        ▲                                                        │ the rest is over
        └───── an answer in time ◄── a query is sent both to it ◄┘
                                     and to the first server

So a dead server delays one query, and no further one while another server answers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

# Our tunables, in seconds unless said otherwise.
REST_FIRST, REST_AT_MOST = 5.0, 60.0
SLOW_ANSWERS = 3
"""Late answers in a row after which a server counts as slow."""
TXT_SILENCE = 60.0
SILENT_NAMES = 3
"""Names without an answer to TXT after which no name's TXT is waited for."""
NAMES_AT_MOST = 1024

Server = TypeVar("Server", bound=Hashable)


@dataclass(slots=True)
class _Record:
    rests: int = 0
    until: float = 0.0


class NameServers(Generic[Server]):
    """The servers in order of preference, and those that rest. `now`: the loop's time in seconds."""

    def __init__(self, servers: Sequence[Server] = ()) -> None:
        self.servers = tuple(servers)
        self._resting: dict[Server, _Record] = {}
        self._slow: dict[Server, int] = {}

    def use(self, servers: Sequence[Server]) -> None:
        """Use these servers, and keep the records of those that were in use before."""
        self.servers = tuple(servers)
        self._resting = {it: record for it, record in self._resting.items() if it in self.servers}
        self._slow = {it: count for it, count in self._slow.items() if it in self.servers}

    def forget(self) -> None:
        """Forget all records, because the computer is in another network."""
        self._resting.clear()
        self._slow.clear()

    def order(self) -> tuple[Server, ...]:
        if not self._resting:
            return self.servers
        return (
            *(it for it in self.servers if it not in self._resting),
            *(it for it in self.servers if it in self._resting),
        )

    def trial(self, now: float) -> Server | None:
        """A server whose rest is over, to be tried. Its next rest begins now, and ends with an answer in time."""
        if not self._resting or len(self._resting) == len(self.servers):
            return None
        for server, record in self._resting.items():
            if record.until <= now:
                self._rest(server, now)
                return server
        return None

    def note_exchange(self, server: Server, *, in_time: bool, now: float) -> None:
        if in_time:
            if self._resting or self._slow:
                self._resting.pop(server, None)
                self._slow.pop(server, None)
            return
        slow = self._slow[server] = self._slow.get(server, 0) + 1
        if slow >= SLOW_ANSWERS:
            self.silent(server, now)

    def silent(self, server: Server, now: float) -> None:
        if server in self.servers and ((record := self._resting.get(server)) is None or record.until <= now):
            self._rest(server, now)

    def _rest(self, server: Server, now: float) -> None:
        record = self._resting.setdefault(server, _Record())
        record.until = now + min(REST_FIRST * 2.0**record.rests, REST_AT_MOST)
        record.rests = min(record.rests + 1, 16)


class TxtSilence:
    """Names whose TXT query had no answer while other queries were answered: some networks drop TXT.

    TXT only ever adds names, so a name whose TXT is not waited for loses nothing that the profile protects.
    """

    def __init__(self) -> None:
        self._until: OrderedDict[str, float] = OrderedDict()

    def expects(self, fqdn: str, now: float) -> bool:
        """Whether to wait for a TXT answer."""
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
        return fqdn not in self._until and len(self._until) < SILENT_NAMES

    def silent(self, fqdn: str, now: float) -> None:
        self._until.pop(fqdn, None)
        self._until[fqdn] = now + TXT_SILENCE
        if len(self._until) > NAMES_AT_MOST:
            self._until.popitem(last=False)

    def note_answer(self) -> None:
        self._until.clear()
