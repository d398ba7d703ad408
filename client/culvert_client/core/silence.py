"""Which gateways do not answer. Pure; times are `now` values of the client, in seconds.

Received packets prove that a tunnel works. An unused tunnel receives none, nor does one that only sends. So the client
asks a doubtful gateway (answering.py): with a probe through its tunnels where the gateway answers one, else with a ping
outside of them. A new tunnel is in doubt until a packet has come through it. A gateway that does not answer counts as
silent until it answers, or until a packet comes through one of its tunnels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from culvert_proto import CulvertError, Reason

from culvert_client.core.grant import Address, TunnelId
from culvert_client.core.profile import Profile
from culvert_client.core.tunnel.machine import Machine
from culvert_client.core.tunnel.states import Carried


@dataclass(frozen=True, slots=True)
class _Silence:
    """`pinged`: the gateway answers outside of its tunnels."""

    since: float
    pinged: bool


class Silences:
    def __init__(self) -> None:
        self._known: dict[str, _Silence] = {}

    def asked(
        self, answered: Iterable[str], unanswered: Iterable[str], pinged: Iterable[str], now: float
    ) -> None:
        for gateway in answered:
            self._known.pop(gateway, None)
        for gateway in unanswered:
            before = self._known.get(gateway)
            self._known[gateway] = _Silence(before.since if before else now, gateway in pinged)

    def forget(self) -> None:
        """The computer has another network or another owner."""
        self._known.clear()

    def forget_unused(self, machines: Mapping[str, Machine]) -> None:
        """A gateway without a tunnel is no longer asked, so its next tunnel must begin without an old verdict."""
        used = {carried.tunnel.gateway for carried in _carried(machines)}
        self._known = {gateway: it for gateway, it in self._known.items() if gateway in used}

    def counted(self, machines: Mapping[str, Machine]) -> None:
        """Gateways that have sent a packet since then answer again."""
        for carried in _carried(machines):
            known = self._known.get(carried.tunnel.gateway)
            if known is not None and carried.has_heard_since(known.since):
                del self._known[carried.tunnel.gateway]

    def covers(self, machine: Machine) -> bool:
        """Whether this tunnel is up and its gateway does not answer."""
        carried = machine.carried
        return machine.is_up and carried is not None and carried.tunnel.gateway in self._known

    def error(self, fqdn: str, machine: Machine) -> CulvertError | None:
        """The fault of the name's tunnel when its gateway does not answer."""
        carried = machine.carried
        if carried is None or not self.covers(machine):
            return None
        tunnel = carried.tunnel
        if not self._known[tunnel.gateway].pinged:
            return CulvertError(Reason.GATEWAY_SILENT, gateway=tunnel.gateway, name=fqdn)
        return CulvertError(
            Reason.TUNNEL_BLOCKED,
            gateway=tunnel.gateway,
            name=fqdn,
            port=tunnel.outer_port,
            address=tunnel.outer_address,
        )

    def doubtful(self, machines: Mapping[str, Machine], profile: Profile, now: float) -> frozenset[str]:
        """The gateways to ask now: silent, offline as the controller says, or owing an answer."""
        offline = {it.name for it in profile.gateways if not it.online} | self._known.keys()
        return frozenset(
            it.tunnel.gateway
            for it in _carried(machines)
            if it.tunnel.gateway in offline or is_unproven(machines, it) or it.is_owed_an_answer(now)
        )


def is_unproven(machines: Mapping[str, Machine], carried: Carried) -> bool:
    """Whether a tunnel's gateway answers probes and has sent nothing since the tunnel was installed. Another tunnel may
    carry all packets of this one, when both reach the same address."""
    if carried.tunnel.probe is None or carried.heard_at is not None:
        return False
    return carried.tunnel.gateway not in heard(machines, carried.since)


def probes(machines: Mapping[str, Machine], gateway: str) -> dict[TunnelId, Address]:
    """Where to send a probe through each of the gateway's tunnels. All of them: the gateway chooses through which one it
    answers, and has to know where this computer is."""
    return {
        it.tunnel.tunnel_id: it.tunnel.probe.target
        for it in _carried(machines)
        if it.tunnel.gateway == gateway and it.tunnel.probe is not None
    }


def heard(machines: Mapping[str, Machine], since: float) -> frozenset[str]:
    """The gateways that have sent a packet through a tunnel after that."""
    return frozenset(it.tunnel.gateway for it in _carried(machines) if it.has_heard_since(since))


def _carried(machines: Mapping[str, Machine]) -> Iterator[Carried]:
    for machine in machines.values():
        if machine.is_up and machine.carried is not None:
            yield machine.carried
