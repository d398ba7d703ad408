"""Sends the core's calls to the controller, and converts each answer to the event that the core waits for."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from culvert_proto import CulvertError, Reason, agent_pb2
from culvert_proto.contract import Suite

from culvert_client.controller.agent import Agent
from culvert_client.controller.messages import pair_from, tunnel_from
from culvert_client.core.client_events import Call, CallEnded
from culvert_client.core.consent import Consent
from culvert_client.core.neighbours import Beside
from culvert_client.core.tunnel import events as tunnel

log = logging.getLogger("culvertd")

_Answer = tunnel.TunnelOpened | tunnel.Renewed | tunnel.Activated | tunnel.CloseDone


def begin(
    agent: Agent,
    call: Call,
    *,
    udp_port: int,
    legacy_suites: Collection[Suite],
    distances: Iterable[agent_pb2.GatewayDistance],
    asked_at: float,
    beside: Callable[[], Beside],
    consent: Callable[[], Consent],
) -> Coroutine[Any, Any, CallEnded]:
    """The returned coroutine waits for the answer. An opening has begun by then: somebody's page waits for it.

    `udp_port` is where this device sends ESP from; `asked_at` is the `now` at which the call was made.
    """

    async def opened(answer: Awaitable[agent_pb2.OpenTunnelResponse]) -> tunnel.TunnelOpened:
        opened = await answer
        try:
            return tunnel.TunnelOpened(
                number,
                tunnel_from(opened.tunnel, agent.surroundings, beside(), consent()),
                pair_from(opened.sas, legacy_suites, beside()),
                asked_at=asked_at,
                decided=opened.decided_us / 1e6,
                programmed=opened.programmed_us / 1e6,
            )
        except CulvertError as error:
            # Close the tunnel, which is open on the gateway but refused here.
            with suppress(CulvertError):
                await agent.close_tunnel(opened.tunnel.tunnel_id, error.reason)
            raise

    async def renewed(tunnel_id: str, generation: int) -> tunnel.Renewed:
        answer = await agent.renew_sa(tunnel_id, generation)
        return tunnel.Renewed(number, pair_from(answer.sas, legacy_suites, beside()))

    async def activated(tunnel_id: str, generation: int) -> tunnel.Activated:
        await agent.activate_sa(tunnel_id, generation)
        return tunnel.Activated(number)

    async def closed(tunnel_id: str, reason: Reason) -> tunnel.CloseDone:
        await agent.close_tunnel(tunnel_id, reason)
        return tunnel.CloseDone(number)

    number = call.command.call
    match call.command:
        case tunnel.OpenTunnel():
            request = agent_pb2.OpenTunnelRequest(
                fqdn=call.fqdn,
                gateway=call.gateway,
                udp_port=udp_port,
                distances=distances,
                asked=call.asked,
                attempt=os.urandom(16),
            )
            event = opened(agent.open_tunnel(request))
        case tunnel.RenewSa(_, tunnel_id, generation):
            event = renewed(tunnel_id, generation)
        case tunnel.ActivateSa(_, tunnel_id, generation):
            event = activated(tunnel_id, generation)
        case tunnel.CloseTunnel(_, tunnel_id, reason):
            event = closed(tunnel_id, reason)
    return _end_call(call, event)


async def _end_call(call: Call, event: Awaitable[_Answer]) -> CallEnded:
    try:
        return CallEnded(call.fqdn, await event)
    except CulvertError as error:
        return CallEnded(call.fqdn, tunnel.Failed(call.command.call, error))
    except Exception:
        # The tunnel would wait for this answer until the daemon is started again.
        log.exception("a call to the controller failed")
        return CallEnded(call.fqdn, tunnel.Failed(call.command.call, CulvertError(Reason.INTERNAL)))
