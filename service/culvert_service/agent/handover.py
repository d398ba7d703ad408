"""Handover of a device's call to the controller that owns the gateway.

The owner checks certificate, permission and state as if the device had called it directly. It never hands over again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from culvert_proto import CulvertError, Reason
from google.protobuf.message import Message

from culvert_service.controllers.calls import Calls, NoAnswerError, Serve
from culvert_service.gateways.fleet import Elsewhere, Fleet
from culvert_service.identity.denials import DeviceCaller

_FINGERPRINT = 32


_Request = TypeVar("_Request", bound=Message)
_Response = TypeVar("_Response", bound=Message)


class Handover:
    def __init__(self, calls: Calls, fleet: Fleet) -> None:
        self._calls = calls
        self._fleet = fleet

    def stands(self, elsewhere: Elsewhere) -> bool:
        """Whether the gateway still has the same owner."""
        standing = self._fleet.find_standing(elsewhere.gateway)
        return standing is None or standing.epoch == elsewhere.epoch

    async def follow(
        self, answer: _Response | Elsewhere, caller: DeviceCaller, request: Message, response: type[_Response]
    ) -> _Response:
        """Return the answer, or ask the gateway's owner for it. Raises as `ask`."""
        if isinstance(answer, Elsewhere):
            return await self.ask(answer.gateway, caller, request, response)
        return answer

    async def ask(
        self, gateway: str, caller: DeviceCaller, request: Message, response: type[_Response]
    ) -> _Response:
        """Ask the gateway's owner. Raises the owner's CulvertError, or GATEWAY_DOWN."""
        standing = self._fleet.find_standing(gateway)
        down = CulvertError(Reason.GATEWAY_DOWN, gateway=gateway)
        if standing is None or not standing.holder:
            raise down
        body = (
            caller.fingerprint
            + bytes([len(caller.address)])
            + caller.address.encode()
            + request.SerializeToString()
        )
        try:
            answer = await self._calls.ask(standing.holder, request.DESCRIPTOR.full_name, body)
        except NoAnswerError:
            raise down from None
        return response.FromString(answer)


def serving(
    kind: type[_Request], method: Callable[[DeviceCaller, _Request], Awaitable[Message | Elsewhere]]
) -> dict[str, Serve]:
    """The handler of other controllers' calls of a method, by the name of its request."""

    async def serve(body: bytes) -> bytes:
        fingerprint, rest = body[:_FINGERPRINT], body[_FINGERPRINT:]
        end = 1 + rest[0]
        caller = DeviceCaller(fingerprint, rest[1:end].decode())
        answer = await method(caller, kind.FromString(rest[end:]))
        if isinstance(answer, Elsewhere):
            raise CulvertError(Reason.GATEWAY_DOWN, gateway=answer.gateway)
        return answer.SerializeToString()

    return {kind.DESCRIPTOR.full_name: serve}
