"""One query from its arrival to its answer: forwarded, refused, or held until the client has decided."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from ipaddress import IPv6Network

import dns.rcode
from culvert_proto import CulvertError, Reason

from culvert_client.core import dns_wire
from culvert_client.core.client_events import Event, QueryHeld, UpstreamAnswered
from culvert_client.core.dns_wire import Kind
from culvert_client.core.profile import Profile
from culvert_client.stub.upstream import Upstream


class Resolver:
    """`post` takes what happened to the client; the client's verdict on a held query comes back through `settle`.

    `profile` is of all organisations, `profile_beside` of those that a name does not belong to.
    `translator` is the prefix of the network's NAT64, where there is one.
    """

    def __init__(
        self,
        upstream: Upstream,
        profile: Callable[[], Profile],
        profile_beside: Callable[[str], Profile],
        post: Callable[[Event], None],
        translator: Callable[[], IPv6Network | None] = lambda: None,
    ) -> None:
        self._upstream, self._translator = upstream, translator
        self._profile, self._profile_beside = profile, profile_beside
        self._post = post
        self._numbers = itertools.count(1)
        self._verdicts: dict[int, asyncio.Future[CulvertError | None]] = {}

    async def resolve(self, query: bytes) -> bytes | None:
        """The answer's bytes; None for what deserves none."""
        question = dns_wire.classify(query, self._profile())
        match question.kind:
            case Kind.DROP:
                return None
            case Kind.FORMAT_ERROR:
                return dns_wire.refusal(query, dns.rcode.FORMERR)
            case Kind.NOT_IMPLEMENTED:
                return dns_wire.refusal(query, dns.rcode.NOTIMP)
            case Kind.CANARY:
                return dns_wire.refusal(query, dns.rcode.NXDOMAIN)
            case Kind.FORWARD:
                reply = await self._upstream.exchange(query)
                return reply if reply is not None else _failed(query, _silent(question.fqdn))
            case Kind.SCREEN:
                reply = await self._upstream.exchange(query)
                if reply is None:
                    return _failed(query, _silent(question.fqdn))
                error = dns_wire.rebinds(reply, question.fqdn, self._profile())
                return reply if error is None else _failed(query, error)
            case Kind.HOLD:
                return await self._held(query, question.fqdn)

    def settle(self, number: int, error: CulvertError | None) -> None:
        """Release the answer of a held query, or refuse it with the error."""
        verdict = self._verdicts.get(number)
        if verdict is not None and not verdict.done():
            verdict.set_result(error)

    async def _held(self, query: bytes, fqdn: str) -> bytes:
        number = next(self._numbers)
        verdict = self._verdicts[number] = asyncio.get_running_loop().create_future()
        asking = asyncio.ensure_future(self._ask(number, query))
        try:
            self._post(QueryHeld(number, fqdn))
            error = await verdict
            reply = await asking if error is None else None
            beside = self._profile_beside(fqdn)
            if reply is not None and beside.protected_prefixes:
                # Nor may one organisation's names lead into another's network.
                error = dns_wire.rebinds(reply, fqdn, beside)
                reply = reply if error is None else None
            return reply if reply is not None else _failed(query, error or _silent(fqdn))
        finally:
            del self._verdicts[number]
            asking.cancel()

    async def _ask(self, number: int, query: bytes) -> bytes | None:
        reply, prefix = await self._upstream.exchange(query), self._translator()
        if reply is not None and prefix is not None:
            reply = dns_wire.without(reply, prefix)
        self._post(UpstreamAnswered(number, None if reply is None else dns_wire.addresses_in(reply)))
        return reply


def _silent(fqdn: str) -> CulvertError:
    return CulvertError(Reason.DNS_UPSTREAM_FAILED, name=fqdn)


def _failed(query: bytes, error: CulvertError) -> bytes:
    return dns_wire.refusal(query, dns.rcode.SERVFAIL, error)
