"""Which gateways do not answer. Pure; times are `now` values of the client, in seconds.

Received packets prove that a tunnel works. An unused tunnel receives none, nor does one that only sends. So the client
asks a doubtful gateway outside of the tunnel (answering.py). A gateway that does not answer counts as silent until it
answers, or until a packet comes through one of its tunnels: that packet is authenticated, and proves more than a ping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from culvert_client.core.machine import Machine
from culvert_client.core.profile import Profile
from culvert_client.core.tunnel_states import Carried

# Our tunable, in seconds: longer than a round trip, shorter than a person waits.
ANSWER_DUE = 2.0


class Silences:
    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def asked(self, answered: Iterable[str], unanswered: Iterable[str], now: float) -> None:
        for gateway in answered:
            self._since.pop(gateway, None)
        for gateway in unanswered:
            self._since.setdefault(gateway, now)

    def forget(self) -> None:
        """The computer has another network or another owner."""
        self._since.clear()

    def forget_unused(self, machines: Mapping[str, Machine]) -> None:
        """A gateway without a tunnel is no longer asked, so its next tunnel must begin without an old verdict."""
        used = {carried.tunnel.gateway for carried in _carried(machines)}
        self._since = {gateway: since for gateway, since in self._since.items() if gateway in used}

    def counted(self, machines: Mapping[str, Machine]) -> None:
        """Gateways that have sent a packet since then answer again."""
        for carried in _carried(machines):
            since = self._since.get(carried.tunnel.gateway)
            if since is not None and carried.heard_at is not None and carried.heard_at > since:
                del self._since[carried.tunnel.gateway]

    def covers(self, machine: Machine) -> bool:
        """Whether this tunnel is up and its gateway does not answer."""
        carried = machine.carried
        return machine.is_up and carried is not None and carried.tunnel.gateway in self._since

    def doubtful(self, machines: Mapping[str, Machine], profile: Profile, now: float) -> frozenset[str]:
        """The gateways to ask now: silent, offline as the controller says, or owing an answer."""
        offline = {it.name for it in profile.gateways if not it.online} | self._since.keys()
        return frozenset(
            it.tunnel.gateway for it in _carried(machines) if it.tunnel.gateway in offline or _owed(it, now)
        )


def _carried(machines: Mapping[str, Machine]) -> Iterator[Carried]:
    for machine in machines.values():
        if machine.is_up and machine.carried is not None:
            yield machine.carried


def _owed(carried: Carried, now: float) -> bool:
    return carried.unanswered_since is not None and now - carried.unanswered_since >= ANSWER_DUE
