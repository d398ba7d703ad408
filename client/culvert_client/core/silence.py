"""Finds the gateways that do not answer. Pure; times are `now` values of the client, in seconds.

Received packets prove that a tunnel works. An unused tunnel receives none, nor does one that only sends. So the client
asks a doubtful gateway (answering.py): with a probe through its tunnels where the gateway answers one, else with a ping
outside of them. A new tunnel is in doubt until a packet has come through it. A gateway that does not answer counts as
silent until it answers, or until a packet comes through one of its tunnels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from culvert_proto import CulvertError, Reason

from culvert_client.core.grant import Address, TunnelId
from culvert_client.core.profile import Profile
from culvert_client.core.tunnel.machine import Machine
from culvert_client.core.tunnel.machines import list_carried
from culvert_client.core.tunnel.states import Carried


@dataclass(frozen=True, slots=True)
class _Silence:
    """`pinged`: the gateway answers outside of its tunnels."""

    since: float
    pinged: bool


class Silences:
    def __init__(self) -> None:
        self._known: dict[str, _Silence] = {}
        self._told: Mapping[str, Reason] = {}
        self.narrow: Collection[Address] = ()
        """The outer addresses to which packets of a useful length do not pass."""

    def take_pings(
        self, answered: Iterable[str], unanswered: Iterable[str], pinged: Iterable[str], now: float
    ) -> None:
        for gateway in answered:
            self._known.pop(gateway, None)
        for gateway in unanswered:
            before = self._known.get(gateway)
            self._known[gateway] = _Silence(before.since if before else now, gateway in pinged)

    def forget(self) -> None:
        """Forget all verdicts, because the computer has another network or owner."""
        self._known.clear()

    def forget_unused(self, machines: Mapping[str, Machine]) -> None:
        """A gateway without a tunnel is no longer asked, so its next tunnel must begin without an old verdict."""
        used = {carried.tunnel.gateway for carried in list_carried(machines)}
        self._known = {gateway: it for gateway, it in self._known.items() if gateway in used}

    def take_counters(self, machines: Mapping[str, Machine]) -> None:
        """End the silence of gateways that have sent a packet since it began."""
        for carried in list_carried(machines):
            known = self._known.get(carried.tunnel.gateway)
            if known is not None and carried.has_heard_since(known.since):
                del self._known[carried.tunnel.gateway]

    def covers(self, machine: Machine) -> bool:
        """Whether this tunnel is up and its gateway does not answer."""
        carried = machine.carried
        return machine.is_up and carried is not None and carried.tunnel.gateway in self._known

    def is_unusable(self, machine: Machine) -> bool:
        """As `covers`, or packets of a useful length do not pass."""
        carried = machine.carried
        is_narrow = machine.is_up and carried is not None and carried.tunnel.outer_address in self.narrow
        return is_narrow or self.covers(machine)

    def take_news(self, machines: Mapping[str, Machine]) -> tuple[dict[str, CulvertError], Collection[str]]:
        """Names whose `error` has another reason since the last call, and names that have none any more."""
        found = {fqdn: error for fqdn, it in machines.items() if (error := self.error(fqdn, it)) is not None}
        before, self._told = self._told, {fqdn: error.reason for fqdn, error in found.items()}
        begun = {fqdn: error for fqdn, error in found.items() if before.get(fqdn) is not error.reason}
        return begun, before.keys() - found.keys()

    def error(self, fqdn: str, machine: Machine) -> CulvertError | None:
        """The fault of the name's tunnel when its gateway does not answer, or not to packets of a useful length."""
        carried = machine.carried
        if carried is None or not self.is_unusable(machine):
            return None
        tunnel = carried.tunnel
        if not self.covers(machine):
            return CulvertError(Reason.PATH_NARROW, gateway=tunnel.gateway, name=fqdn)
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
            for it in list_carried(machines)
            if it.tunnel.gateway in offline or is_unproven(machines, it) or it.is_owed_an_answer(now)
        )


def is_unproven(machines: Mapping[str, Machine], carried: Carried) -> bool:
    """Whether a tunnel's gateway answers probes and has sent nothing since the tunnel was installed. Another tunnel may
    carry all packets of this one, when both reach the same address."""
    if carried.tunnel.probe is None or carried.heard_at is not None:
        return False
    return carried.tunnel.gateway not in heard(machines, carried.since)


def probes(machines: Mapping[str, Machine], gateway: str) -> dict[TunnelId, Address]:
    """The targets of a probe through each of the gateway's tunnels. All of them: the gateway chooses through which one it
    answers, and has to know where this computer is."""
    return {
        it.tunnel.tunnel_id: it.tunnel.probe.target
        for it in list_carried(machines)
        if it.tunnel.gateway == gateway and it.tunnel.probe is not None
    }


def heard(machines: Mapping[str, Machine], since: float) -> frozenset[str]:
    """The gateways that have sent a packet through a tunnel since then."""
    return frozenset(it.tunnel.gateway for it in list_carried(machines) if it.has_heard_since(since))
