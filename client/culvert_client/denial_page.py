"""The local web page of denied names: the reason where it happens, for plain HTTP (decision 81).

name refused ──► the stub answers with this page's loopback address, TTL 0
browser ──► GET /path  ──► still refused:     the reason, and a field for the code where one is needed
            POST code  ──► right:             303 to the path
            GET /path  ──► the tunnel is up:  the connection is passed on to the server through the tunnel

Browsers keep an address for about a minute, whatever its TTL says. That is why a connection that comes here after the name
has opened is passed on: the page that was asked for opens at once, in the same tab.

A web page of somebody else can neither read this one nor send a code: the host must be a name that was refused lately, a
form must come from that very host with a token that only its page has, and the sender's socket must be the owner's.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from culvert_proto import CulvertError, local_pb2

from culvert_client.config import Endpoint, SocketAddress
from culvert_client.core.grant import Address
from culvert_client.core.http_request import (
    LONGEST_HEAD,
    Request,
    is_path,
    parse_form,
    parse_head,
)
from culvert_client.core.places import Owners, Places
from culvert_client.core.roles import Role, role_of
from culvert_client.denial_html import CODE_PATH, DENIALS, POLICY, Denial, choose_language, render
from culvert_client.platform.interfaces import LocalSenders, SocketOwner
from culvert_client.tasks import Changes

log = logging.getLogger("culvertd")

# Our tunables.
NAMES, TOKENS = 64, 64
"""Denied names and tokens of forms that are known at the same time."""
REMEMBERED = 600.0
"""Seconds after which a refusal and a token are forgotten."""
CONNECTIONS, RESERVED = 64, 16
READ_PATIENCE, CONNECT_PATIENCE, IDLE = 5.0, 5.0, 60.0
TRY_AGAIN = 30.0
"""Seconds between two tries to have the port."""
ASK_AGAIN = 2.0
"""Seconds between two questions to the controller about one name."""
_CHUNK = 65_536


class Organisation(Protocol):
    """The parts of an organisation that the page uses."""

    @property
    def owner(self) -> int | None: ...
    def explains(self, fqdn: str) -> bool: ...
    async def open_tunnel(self, name: str) -> str: ...
    async def prove_code(self, code: str) -> local_pb2.SubmitCodeResponse: ...
    async def list_carried(self, fqdn: str) -> Collection[Address]: ...


class Organisations(Owners, Protocol):
    def of_name(self, fqdn: str) -> Organisation | None: ...
    def full_name(self, label: str) -> str | None: ...
    def want_page(self) -> bool: ...


@dataclass(slots=True)
class _Refusal:
    error: CulvertError
    at: float


class DenialPage:
    """`listen`: a loopback address of our own, so that a web server on 127.0.0.1 is not in the way."""

    def __init__(self, organisations: Organisations, senders: LocalSenders, listen: Endpoint) -> None:
        self._organisations, self._senders, self._listen = organisations, senders, listen
        self._server: asyncio.Server | None = None
        self._try_at = 0.0
        self._socket_owner: SocketOwner | None = None
        self._places = Places(CONNECTIONS, CONNECTIONS, RESERVED, organisations)
        self._refusals: OrderedDict[str, _Refusal] = OrderedDict()
        self._tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._connections: set[asyncio.Task[None]] = set()

    async def keep(self, changes: Changes) -> None:
        """Listen while a zone allows the page: a program that listens on all addresses cannot have the port meanwhile.

        Without the port, or without knowledge of a connection's user, names stay refused.
        """
        while True:
            changed, wanted = changes.next, self._organisations.want_page()
            if wanted and self._server is None and time.monotonic() >= self._try_at:
                await self._open()
            elif not wanted and self._server is not None:
                await self.close()
            await changed.wait()

    async def _open(self) -> None:
        self._try_at = time.monotonic() + TRY_AGAIN
        try:
            self._socket_owner = self._senders.socket_owner()
            self._server = await asyncio.start_server(
                self._on_connection, self._listen.host, self._listen.port, limit=LONGEST_HEAD
            )
        except OSError as error:
            log.warning("there is no page for denied names: %s", error)
            await self.close()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._socket_owner is not None:
            self._socket_owner.close()
            self._socket_owner = None

    def address_for(self, fqdn: str, error: CulvertError) -> str | None:
        """The address with which the stub answers for a denied name; None: the name stays an error."""
        of = self._organisations.of_name(fqdn)
        if self._server is None or error.reason not in DENIALS or of is None or not of.explains(fqdn):
            return None
        self._refusals.pop(fqdn, None)
        self._refusals[fqdn] = _Refusal(error, time.monotonic())
        if len(self._refusals) > NAMES:
            self._refusals.popitem(last=False)
        return self._listen.host

    # ── connections ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        uid = self._uid_of(writer)
        if not self._places.take(uid):
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._serve(reader, writer, uid)
        finally:
            self._places.give_back(uid)
            self._connections.discard(task)
            writer.close()

    def _uid_of(self, writer: asyncio.StreamWriter) -> int | None:
        peer: SocketAddress = writer.get_extra_info("peername")
        own: SocketAddress = writer.get_extra_info("sockname")
        if self._socket_owner is None:
            return None
        return self._socket_owner.uid_of(socket.AF_INET, socket.SOCK_STREAM, peer, own)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, uid: int | None
    ) -> None:
        async with asyncio.timeout(READ_PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
        request = parse_head(head)
        if request is None:
            await _answer(writer, 400)
            return
        name = self._organisations.full_name(request.name) or request.name
        refusal, of = self._find(name), self._organisations.of_name(name)
        if refusal is None or of is None:
            # A name that leads here without having been refused, as in DNS rebinding.
            await _answer(writer, 421)
            return
        if request.target.partition("?")[0] == CODE_PATH:
            await self._take_code(request, name, reader, writer, uid, of, refusal)
        elif (addresses := await self._try_again(name, refusal, of)) is not None:
            await _pass_on(head, addresses, reader, writer)
        elif request.method in ("GET", "HEAD"):
            target = request.target if is_path(request.target) else "/"
            await self._show(request, name, writer, uid, of, refusal, target)
        else:
            await _answer(writer, 403)

    def _find(self, name: str) -> _Refusal | None:
        found = self._refusals.get(name)
        return found if found is not None and time.monotonic() - found.at < REMEMBERED else None

    async def _try_again(self, name: str, refusal: _Refusal, of: Organisation) -> Collection[Address] | None:
        """The addresses behind the name's tunnel; None if it is still refused."""
        if not (carried := await of.list_carried(name)) and time.monotonic() - refusal.at >= ASK_AGAIN:
            refusal.at = time.monotonic()
            try:
                await of.open_tunnel(name)
            except CulvertError as error:
                refusal.error = error
                return None
            carried = await of.list_carried(name)
        return carried or None

    async def _show(
        self,
        request: Request,
        name: str,
        writer: asyncio.StreamWriter,
        uid: int | None,
        of: Organisation,
        refusal: _Refusal,
        target: str,
        refused: CulvertError | None = None,
    ) -> None:
        token = self._new_token(name) if _may_enter_codes(uid, of) else ""
        language = choose_language(request.fields.get("accept-language", ""))
        page = render(Denial(name, refusal.error, target, token, refused), language)
        await _answer(writer, 403, page, with_body=request.method != "HEAD")

    # ── the code ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _take_code(
        self,
        request: Request,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        uid: int | None,
        of: Organisation,
        refusal: _Refusal,
    ) -> None:
        length = request.body_length
        if request.method != "POST":
            await _answer(writer, 303, location="/")
            return
        if length is None or not request.is_own_form or not _may_enter_codes(uid, of):
            await _answer(writer, 403)
            return
        async with asyncio.timeout(READ_PATIENCE):
            form = parse_form(await reader.readexactly(length))
        target = form.get("to", "")
        target = target if is_path(target) else "/"
        if not self._use_token(form.get("token", ""), name):
            # The page was open for too long, or the daemon has been restarted: nothing is known of this form.
            await _answer(writer, 303, location=target)
            return
        try:
            await of.prove_code(form.get("code", "").strip().replace(" ", ""))
        except CulvertError as error:
            await self._show(request, name, writer, uid, of, refusal, target, error)
            return
        # The next request asks the controller at once.
        refusal.at = min(refusal.at, time.monotonic() - ASK_AGAIN)
        await _answer(writer, 303, location=target)

    def _new_token(self, name: str) -> str:
        token = secrets.token_urlsafe(24)
        self._tokens[token] = name, time.monotonic()
        if len(self._tokens) > TOKENS:
            self._tokens.popitem(last=False)
        return token

    def _use_token(self, token: str, name: str) -> bool:
        """Whether the token is this name's; it works once."""
        known = next((it for it in self._tokens if hmac.compare_digest(it.encode(), token.encode())), None)
        if known is None:
            return False
        of_name, at = self._tokens.pop(known)
        return of_name == name and time.monotonic() - at < REMEMBERED


def _may_enter_codes(uid: int | None, of: Organisation) -> bool:
    return uid is not None and role_of(uid, of.owner) >= Role.OWNER


_REASONS = {
    303: "See Other",
    400: "Bad Request",
    403: "Forbidden",
    421: "Misdirected Request",
    502: "Bad Gateway",
}


async def _answer(
    writer: asyncio.StreamWriter,
    status: int,
    page: bytes = b"",
    *,
    location: str = "",
    with_body: bool = True,
) -> None:
    fields = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Length": str(len(page)),
        "Content-Security-Policy": POLICY,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Resource-Policy": "same-origin",
        # With "no-referrer" a browser would send a form without its origin.
        "Referrer-Policy": "same-origin",
        "Connection": "close",
    } | ({"Location": location} if location else {})
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    writer.write(f"HTTP/1.1 {status} {_REASONS[status]}\r\n{head}\r\n".encode("ascii") + page * with_body)
    async with asyncio.timeout(READ_PATIENCE):
        await writer.drain()


# ── a name that has opened ──────────────────────────────────────────────────────────────────────────────────────────────


async def _pass_on(
    head: bytes,
    addresses: Collection[Address],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_PATIENCE):
                to_reader, to_writer = await asyncio.open_connection(str(address), HTTP)
            break
        except OSError:
            continue
    else:
        await _answer(writer, 502)
        return
    try:
        to_writer.write(head)
        await asyncio.gather(_pump(reader, to_writer), _pump(to_reader, writer))
    finally:
        to_writer.transport.abort()


HTTP = 80


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while True:
        async with asyncio.timeout(IDLE):
            data = await source.read(_CHUNK)
            sink.write(data)
            await sink.drain()
        if not data:
            if sink.can_write_eof():
                sink.write_eof()
            return
