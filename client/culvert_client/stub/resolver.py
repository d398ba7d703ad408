"""A query from its arrival to its answer: forwarded, refused, or held until the client has decided.

For low latency, a query whose tunnel is up is forwarded before the client handles it, and an answer is sent as soon as it
is released, both without a turn of the event loop. If the tunnel has to be opened, the controller is called before the
query is forwarded, because the call takes longer.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Network
from typing import Protocol

import dns.rcode
from culvert_proto import CulvertError, Reason

from culvert_client.core import dns_answer, dns_wire, short_names
from culvert_client.core.client_events import Event, Fail, QueryHeld, Reply, UpstreamAnswered
from culvert_client.core.dns_wire import QueryKind, Question
from culvert_client.core.grant import Address
from culvert_client.core.profile import Profile
from culvert_client.core.tunnel.events import QueryId
from culvert_client.stub.upstream import Asker, Upstream

log = logging.getLogger("culvertd")

# Our tunable: more than the number of people who examine one computer at the same time.
_PROBES = 16
# Addresses for benchmarks (RFC 2544), which no host has: the first one, and their number.
_PROBE_ADDRESSES = IPv4Address("198.18.0.1"), 2**17 - 2

SendAnswer = Callable[[bytes | None], None]
"""Is called once, with the answer's bytes; with None for what deserves none."""


@dataclass(slots=True)
class _Hold:
    query: bytes
    fqdn: str
    answer: SendAnswer
    reply: bytes | None = None


class Organisations(Protocol):
    """The stub's questions to the organisations, and the events that it passes to them."""

    def profile(self) -> Profile:
        """The merged profiles of all organisations."""
        ...

    def profile_beside(self, fqdn: str) -> Profile:
        """The merged profiles of all organisations but the name's own."""
        ...

    def addresses_of(self, fqdn: str) -> Collection[Address]:
        """The controller's addresses of a name."""
        ...

    def full_name(self, label: str) -> str | None:
        """The full name for a name without a dot; None if there is none."""
        ...

    def asks_controller_first(self, fqdn: str) -> bool: ...

    def post_dns(self, event: Event) -> None: ...


class Pages(Protocol):
    def address_for(self, fqdn: str, error: CulvertError) -> str | None:
        """The address of a page that explains the refusal; None without one."""
        ...


class Translator(Protocol):
    """The prefix of the network's NAT64, if it has one."""

    @property
    def translator(self) -> IPv6Network | None: ...


class Resolver:
    """`settle` takes the organisations' decision about a held query."""

    def __init__(
        self, upstream: Upstream, organisations: Organisations, nat64: Translator, pages: Pages | None = None
    ) -> None:
        self._upstream, self._organisations, self._nat64 = upstream, organisations, nat64
        self._pages = pages
        self._numbers = itertools.count(1)
        self._held: dict[QueryId, _Hold] = {}
        self._asking: dict[QueryId, Asker] = {}
        self._probes: OrderedDict[str, str] = OrderedDict()
        # Bounded, because only names of resources are added.
        self._told: set[str] = set()

    def new_probe(self) -> tuple[str, str]:
        """A new name below the canary, which only this stub answers, and the address that it has from now on."""
        first, count = _PROBE_ADDRESSES
        name, address = f"{secrets.token_hex(8)}.{dns_wire.CANARY}", str(first + secrets.randbelow(count))
        self._probes[name] = address
        if len(self._probes) > _PROBES:
            self._probes.popitem(last=False)
        return name, address

    def sort(self, query: bytes) -> Question:
        profile = self._organisations.profile()
        question = dns_wire.classify(query, profile)
        label = short_names.label_of(question.fqdn)
        if not label or profile.manages(question.fqdn):
            return question
        if (fqdn := self._organisations.full_name(label)) is not None:
            full = short_names.in_full(query, fqdn)
            if full is not None:
                return replace(dns_wire.classify(full, profile), full=full)
        return Question(QueryKind.NO_NAME) if short_names.is_searched(question.fqdn) else question

    def resolve(self, query: bytes, question: Question, answer: SendAnswer) -> None:
        """`question`: the result of `sort` for this query."""
        if question.full:
            self.resolve(
                question.full,
                replace(question, full=b""),
                lambda reply: answer(short_names.as_asked(reply, query)),
            )
            return
        if question.fqdn in self._probes:
            answer(dns_wire.host_answer(query, self._probes[question.fqdn]))
            return
        match question.kind:
            case QueryKind.DROP:
                answer(None)
            case QueryKind.FORMAT_ERROR:
                answer(dns_wire.refusal(query, dns.rcode.FORMERR))
            case QueryKind.NOT_IMPLEMENTED:
                answer(dns_wire.refusal(query, dns.rcode.NOTIMP))
            case QueryKind.NO_NAME:
                answer(dns_wire.refusal(query, dns.rcode.NXDOMAIN))
            case QueryKind.NO_DATA:
                answer(dns_wire.refusal(query, dns.rcode.NOERROR))
            case QueryKind.FORWARD | QueryKind.SCREEN | QueryKind.DETACH:
                self._ask(
                    self._next_id(),
                    query,
                    lambda _, reply: self._on_forwarded(query, question, answer, reply),
                )
            case QueryKind.HOLD:
                query_id, fqdn = self._next_id(), question.fqdn
                self._held[query_id] = _Hold(query, fqdn, answer)
                if self._organisations.asks_controller_first(fqdn):
                    self._organisations.post_dns(QueryHeld(query_id, fqdn))
                    asyncio.get_running_loop().call_soon(self._ask_held, query_id)
                else:
                    self._ask_held(query_id)
                    self._organisations.post_dns(QueryHeld(query_id, fqdn))

    def _next_id(self) -> QueryId:
        return QueryId(next(self._numbers))

    def settle(self, settled: Reply | Fail) -> None:
        """Release the answer of a held query, or answer with the error."""
        hold = self._held.pop(settled.query, None)
        if hold is None:
            return
        reply = self._release(hold, settled) if isinstance(settled, Reply) else settled.error
        hold.answer(self._refuse(hold, reply) if isinstance(reply, CulvertError) else reply)
        if (asking := self._asking.pop(settled.query, None)) is not None:
            asking.cancel()

    def _refuse(self, hold: _Hold, error: CulvertError) -> bytes:
        page = self._pages.address_for(hold.fqdn, error) if self._pages is not None else None
        # TTL 0: the name's own address counts as soon as it is permitted.
        return _fail(hold.query, error) if page is None else dns_wire.host_answer(hold.query, page)

    def _release(self, hold: _Hold, settled: Reply) -> bytes | CulvertError:
        reply = hold.reply
        if reply is not None and settled.without:
            reply = dns_answer.without(reply, settled.without, settled.error)
        if reply is not None:
            reply = dns_answer.drop_unasked(reply, self._organisations.profile().manages)
        if reply is None:
            return _silent(hold.fqdn)
        beside = self._organisations.profile_beside(hold.fqdn)
        # A name must not have addresses in another organisation's network.
        return dns_answer.screen(reply, hold.fqdn, beside) if beside.protected_prefixes else reply

    def close(self) -> None:
        """End all running queries without an answer."""
        for asking in self._asking.values():
            asking.cancel()

    def _ask_held(self, query_id: QueryId) -> None:
        # The query may have ended with an error meanwhile.
        if (hold := self._held.get(query_id)) is not None:
            self._ask(query_id, hold.query, self._on_answer)

    def _ask(self, query_id: QueryId, query: bytes, done: Callable[[QueryId, bytes | None], None]) -> None:
        def answered(reply: bytes | None) -> None:
            del self._asking[query_id]
            done(query_id, reply)

        self._asking[query_id] = self._upstream.begin(query, answered)

    def _on_forwarded(
        self, query: bytes, question: Question, answer: SendAnswer, reply: bytes | None
    ) -> None:
        found: bytes | CulvertError | None = reply
        if reply is not None and question.kind is QueryKind.SCREEN:
            found = dns_answer.screen(reply, question.fqdn, self._organisations.profile())
        if reply is not None and question.kind is QueryKind.DETACH:
            found = dns_answer.drop_additional_addresses(reply)
        if isinstance(found, bytes):
            found = dns_answer.drop_unasked(found, self._organisations.profile().manages)
        if found is None:
            found = _silent(question.fqdn)
        answer(_fail(query, found) if isinstance(found, CulvertError) else found)

    def _on_answer(self, query_id: QueryId, reply: bytes | None) -> None:
        if reply is not None and (prefix := self._nat64.translator) is not None:
            # Addresses that a DNS64 (RFC 6147) has synthesised lead to the network's translator and bypass all tunnels.
            made_up = {it for it in dns_wire.addresses_in(reply) or () if it in prefix}
            reply = dns_answer.without(reply, made_up)
        hold = self._held[query_id]
        found = dns_wire.read_found(reply) if reply is not None else None
        if reply is not None and found is not None and found.names_hosts:
            reply = dns_answer.with_own_addresses(reply, (hold.fqdn, *found.aliases))
            found = dns_wire.read_found(reply) if reply is not None else None
        if reply is None or found is not None:
            aliases = found.aliases if found is not None else ()
            profile = self._organisations.profile()
            known = self._organisations.addresses_of(profile.reached((hold.fqdn, *aliases)))
            if (corrected := dns_answer.correct(hold.query, found, known, profile)) is not None:
                self._tell_of(hold.fqdn)
                reply, found = corrected, dns_wire.read_found(corrected)
        hold.reply = reply
        self._organisations.post_dns(
            UpstreamAnswered(query_id, None)
            if found is None
            else UpstreamAnswered(query_id, found.addresses, found.aliases)
        )

    def _tell_of(self, fqdn: str) -> None:
        if fqdn not in self._told:
            self._told.add(fqdn)
            log.warning(
                "the network's name server has no correct address of %s: the controller's address is used",
                fqdn,
            )


def _silent(fqdn: str) -> CulvertError:
    return CulvertError(Reason.DNS_UPSTREAM_FAILED, name=fqdn)


def _fail(query: bytes, error: CulvertError) -> bytes:
    return dns_wire.refusal(query, dns.rcode.SERVFAIL, error)
