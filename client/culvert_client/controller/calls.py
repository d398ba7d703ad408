"""Carries the core's calls to the controller, and brings each answer back as the event that the core waits for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from culvert_proto import CulvertError, Reason, agent_pb2

from culvert_client.controller.agent import Agent
from culvert_client.controller.messages import pair_from, tunnel_from
from culvert_client.core import tunnel_events as tunnel
from culvert_client.core.client_events import Call, CallEnded
from culvert_client.core.neighbours import Beside
from culvert_client.core.suite import Suite


async def perform(
    agent: Agent,
    call: Call,
    *,
    udp_port: int,
    legacy_suites: Collection[Suite],
    distances: Iterable[agent_pb2.GatewayDistance],
    asked_at: float,
    beside: Callable[[], Beside],
) -> CallEnded:
    """`udp_port` is where this device sends ESP from; `asked_at` is the `now` at which the call was made."""
    try:
        match call.command:
            case tunnel.OpenTunnel(number):
                request = agent_pb2.OpenTunnelRequest(
                    fqdn=call.fqdn, gateway=call.gateway, udp_port=udp_port, distances=distances
                )
                opened = await agent.open_tunnel(request)
                try:
                    event = tunnel.TunnelOpened(
                        number,
                        tunnel_from(opened.tunnel, agent.surroundings, beside()),
                        pair_from(opened.sas, legacy_suites, beside()),
                        asked_at=asked_at,
                        decided=opened.decided_us / 1e6,
                        programmed=opened.programmed_us / 1e6,
                    )
                except CulvertError:
                    # It is open on the gateway, and nobody here will use it.
                    with suppress(CulvertError):
                        await agent.close_tunnel(opened.tunnel.tunnel_id, Reason.CLOSED_BY_USER)
                    raise
            case tunnel.RenewSa(number, tunnel_id, generation):
                renewed = await agent.renew_sa(tunnel_id, generation)
                event = tunnel.Renewed(number, pair_from(renewed.sas, legacy_suites, beside()))
            case tunnel.ActivateSa(number, tunnel_id, generation):
                await agent.activate_sa(tunnel_id, generation)
                event = tunnel.Activated(number)
            case tunnel.CloseTunnel(number, tunnel_id, reason):
                await agent.close_tunnel(tunnel_id, reason)
                event = tunnel.CloseDone(number)
    except CulvertError as error:
        event = tunnel.Failed(call.command.call, error)
    return CallEnded(call.fqdn, event)
