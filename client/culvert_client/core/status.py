"""A person's view (culvert.local.v1.Status), as a function of the client's state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from culvert_proto import CulvertError, Reason, local_pb2

from culvert_client.core.clicks import Click
from culvert_client.core.client import Client
from culvert_client.core.tunnel.machine import Machine
from culvert_client.core.tunnel.states import (
    Activating,
    Carried,
    Closing,
    Installing,
    Moving,
    Opening,
    Renewing,
    Switching,
)


def status_of(
    client: Client,
    *,
    controller: str | None,
    epoch: float,
    now: float,
    version: str,
    datapath: str,
    round_trips: Mapping[str, float],
) -> local_pb2.Status:
    """`controller`: None if not enrolled. `epoch`: the Unix time at which `now` was 0.

    `round_trips` in seconds, by gateway.
    """
    profile, fault = client.profile, client.last_fault
    unreadable = next(reversed(client.unreadable.values()), None)
    error = unreadable or (fault.error if fault is not None else None)
    told_at = round(epoch + fault.at) if fault is not None and unreadable is None else 0
    return local_pb2.Status(
        state=_state(client, enrolled=controller is not None, unix_now=epoch + now),
        user=profile.user,
        device_name=profile.device_name,
        controller=controller or "",
        code_valid_until=profile.code_valid_until,
        tunnels=[_tunnel(client, fqdn, machine, epoch) for fqdn, machine in sorted(client.machines.items())],
        gateways=[
            local_pb2.Gateway(
                name=g.name,
                address=g.address,
                online=g.online,
                rtt_us=round(round_trips.get(g.name, 0) * 1e6),
            )
            for g in profile.gateways
        ],
        selected_gateway=client.gateway,
        resources=[
            local_pb2.Resource(name=r.name, fqdn=r.fqdn, addresses=r.addresses) for r in profile.resources
        ],
        last_error=error.to_proto() if error else None,
        last_error_at=told_at,
        clicks=[_click(click, epoch) for click in client.clicks.newest()],
        version=version,
        datapath=datapath,
        paused_until=client.paused_until,
        drops=client.all_drops,
        awaiting_prefixes=map(str, profile.awaiting),
        declined_prefixes=map(str, profile.declined),
        agreed_prefixes=map(str, profile.agreed),
        code_postponed=client.transfers.are_running(now),
    )


def redact(status: local_pb2.Status) -> local_pb2.Status:
    """The status for users who did not enrol this computer: without person, tunnels and resources."""
    return local_pb2.Status(
        state=status.state, controller=status.controller, version=status.version, datapath=status.datapath
    )


def _state(client: Client, *, enrolled: bool, unix_now: float) -> local_pb2.State.ValueType:
    if client.unreadable and not client.connected:
        return local_pb2.STATE_BLOCKED
    if not enrolled:
        return local_pb2.STATE_NOT_ENROLLED
    if client.paused_until:
        return local_pb2.STATE_PAUSED
    if not client.connected:
        return local_pb2.STATE_NEEDS_CODE if client.needs_late_renewal else local_pb2.STATE_OFFLINE
    if client.profile.code_valid_until <= unix_now:
        return local_pb2.STATE_NEEDS_CODE
    machines = client.machines.values()
    unproven = any(map(client.is_unproven, client.machines))
    if unproven or any(isinstance(machine.state, Opening | Installing | Moving) for machine in machines):
        return local_pb2.STATE_CONNECTING
    wrong = [client.silence(fqdn) for fqdn, machine in client.machines.items() if machine.is_up]
    if not wrong:
        return local_pb2.STATE_READY
    if None in wrong:
        return local_pb2.STATE_CONNECTED
    narrow = any(error is not None and error.reason is Reason.PATH_NARROW for error in wrong)
    return local_pb2.STATE_PATH_NARROW if narrow else local_pb2.STATE_GATEWAY_SILENT


def _tunnel(client: Client, fqdn: str, machine: Machine, epoch: float) -> local_pb2.Tunnel:
    state = _tunnel_state(machine, client.silence(fqdn))
    if client.is_unproven(fqdn):
        state = local_pb2.TUNNEL_STATE_OPENING
    shown = local_pb2.Tunnel(fqdn=fqdn, state=state)
    if isinstance(machine.state, Closing):
        shown.tunnel_id = machine.state.tunnel_id
    if machine.carried is not None:
        _fill(shown, machine.carried, epoch)
        if shown.code_until and client.code_proven_at is not None:
            # The controller reckons from the newest code.
            shown.code_until = max(
                shown.code_until, round(epoch + client.code_proven_at) + shown.code_seconds
            )
        shown.drops.update(client.drops.get(machine.carried.tunnel.tunnel_id, {}))
    return shown


def _fill(shown: local_pb2.Tunnel, carried: Carried, epoch: float) -> None:
    tunnel, usage = carried.tunnel, carried.usage
    shown.tunnel_id = tunnel.tunnel_id
    shown.resource, shown.gateway = tunnel.resource, tunnel.gateway
    shown.inner_address = str(tunnel.inner_address)
    shown.remote_prefixes.extend(map(str, tunnel.remote_prefixes))
    shown.since_ms = round((epoch + carried.since) * 1e3)
    shown.heard_ms = round((epoch + carried.heard_at) * 1e3) if carried.heard_at is not None else 0
    shown.packets_in, shown.packets_out = usage.packets_in, usage.packets_out
    shown.bytes_in, shown.bytes_out = usage.bytes_in, usage.bytes_out
    shown.generation = carried.pair.generation
    shown.code_until, shown.code_seconds = tunnel.code_until, tunnel.code_seconds
    shown.page = tunnel.page


def _tunnel_state(machine: Machine, wrong: CulvertError | None) -> local_pb2.TunnelState.ValueType:
    match machine.state:
        case Opening() | Installing() | Moving():
            return local_pb2.TUNNEL_STATE_OPENING
        case _ if wrong is not None:
            narrow = wrong.reason is Reason.PATH_NARROW
            return local_pb2.TUNNEL_STATE_NARROW if narrow else local_pb2.TUNNEL_STATE_SILENT
        case Renewing() | Switching() | Activating():
            return local_pb2.TUNNEL_STATE_REKEYING
        case Closing():
            return local_pb2.TUNNEL_STATE_CLOSING
        case _:
            return local_pb2.TUNNEL_STATE_UP


def _click(click: Click, epoch: float) -> local_pb2.Click:
    started = click.started
    steps: Iterable[tuple[str, float]] = sorted(click.steps.items(), key=lambda step: step[1])
    return local_pb2.Click(
        fqdn=click.fqdn,
        started_us=round((epoch + started) * 1e6),
        steps=[local_pb2.Step(name=name, at_us=round((at - started) * 1e6)) for name, at in steps],
        error=click.error.to_proto() if click.error else None,
        tunnel=click.tunnel,
    )
