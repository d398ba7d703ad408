"""Our SAs in the kernel: their counters, and the sequence numbers that their keys have used.

If an SA were removed and added again with the same key, its sequence numbers would begin again at 1, and an AES-GCM key
would use its IVs twice. So the numbers are read before an SA is removed, and an SA with the same key continues after them.
A key whose numbers are unknown is not used again.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from culvert_ipsec.xfrm_plan import Owner
from culvert_ipsec.xfrm_socket import XfrmSocket
from culvert_ipsec.xfrm_values import Replay, Sa, SaName, SaSeen

# Keys whose sequence numbers are remembered.
_REMEMBERED = 65536
# Sequence numbers to skip: more than are used between reading them and removing the SA.
_SKIPPED = 1 << 20
_LAST_NUMBER = {False: (1 << 32) - 1, True: (1 << 64) - 1}


@dataclass(frozen=True, slots=True)
class Tally:
    """Packets and bytes that were carried, and packets that were dropped as replays or as forged."""

    packets: int = 0
    bytes: int = 0
    replays: int = 0
    forged: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.packets + other.packets,
            self.bytes + other.bytes,
            self.replays + other.replays,
            self.forged + other.forged,
        )

    @classmethod
    def of(cls, seen: SaSeen) -> Tally:
        return cls(seen.packets, seen.bytes, seen.late + seen.replayed, seen.forged)


class Sad:
    """The SAs that this process has added. Every method may raise OSError."""

    def __init__(self, xfrm: XfrmSocket) -> None:
        self._xfrm = xfrm
        self._present: dict[SaName, tuple[Owner, bytes]] = {}
        self._used: dict[bytes, Replay | None] = {}
        self._gone: dict[Owner, Tally] = {}

    def add(self, sa: Sa, owner: Owner) -> bool:
        """Add an SA; return False if its key must not be used again."""
        digest = _digest(sa)
        # Remove the same SA between other addresses.
        for name in [name for name, (_, known) in self._present.items() if known == digest]:
            self.remove(name)
        after = self._used.get(digest, Replay())
        if after is None or after.sent > _LAST_NUMBER[sa.esn]:
            return False
        self._xfrm.add_sa(sa, after)
        self._present[sa.name] = owner, digest
        return True

    def remove(self, name: SaName) -> None:
        """Remove an SA; a missing one is no error."""
        if name not in self._present:
            return
        seen = self._read(name)
        if seen is None:
            return
        try:
            self._xfrm.remove_sa(name)
        except ProcessLookupError:
            self.note_end(name, None)
            return
        numbers = seen.replay
        sent = numbers.sent + _SKIPPED if numbers.sent else 0
        self._end(name, Tally.of(seen), Replay(sent, numbers.received))

    def note_end(self, name: SaName, seen: SaSeen | None) -> None:
        """Record that the kernel or another program has removed the SA."""
        if name in self._present:
            self._end(name, Tally.of(seen) if seen is not None else Tally(), None)

    def measure(self, vanished: list[SaName]) -> Mapping[Owner, Tally]:
        """Each owner's sum over all of its SAs, past and present. Appends SAs that others removed to `vanished`."""
        found = dict(self._gone)
        for name, (owner, _) in list(self._present.items()):
            seen = self._read(name)
            if seen is None:
                vanished.append(name)
            else:
                found[owner] = found.get(owner, Tally()) + Tally.of(seen)
        return found

    def keep_counts(self, tunnels: Collection[str]) -> None:
        """Keep the counts of these tunnels; those of all others begin at 0."""
        self._gone = {owner: tally for owner, tally in self._gone.items() if owner.tunnel_id in tunnels}

    def _read(self, name: SaName) -> SaSeen | None:
        try:
            return self._xfrm.sa(name)
        except OSError as error:
            if error.errno != errno.ESRCH:
                raise
            self.note_end(name, None)
            return None

    def _end(self, name: SaName, tally: Tally, numbers: Replay | None) -> None:
        owner, digest = self._present.pop(name)
        self._gone[owner] = self._gone.get(owner, Tally()) + tally
        self._used.pop(digest, None)
        self._used[digest] = numbers
        if len(self._used) > _REMEMBERED:
            del self._used[next(iter(self._used))]


def _digest(sa: Sa) -> bytes:
    return hashlib.sha256(sa.algorithms.key + sa.algorithms.integrity_key).digest()
