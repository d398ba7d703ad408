"""Connections to Postgres with asyncpg, with INET and CIDR as text.

Only servers that take writes are used: standbys, and primaries that became standbys, are skipped.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Any

from sqlalchemy import URL, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from culvert_db.outage import READ_ONLY, sqlstate
from culvert_db.text import learn_collation
from culvert_db.tls import Tls

# A statement is planned once per connection, not for each set of values. Sequential scans are disabled, because a plan
# from the time of a small table would stay in use after thousands of enrolments. JIT is off, because the high cost of a
# disabled scan that is still needed would trigger compilation.
SERVER_SETTINGS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
# Set explicitly, because an operator's ALTER DATABASE or ALTER ROLE may have changed them.
_FORMATS = {"bytea_output": "hex", "default_transaction_isolation": "'read committed'"}
# The only settings that PgBouncer accepts at the start of a connection; it tracks them for each client in every mode.
_AT_START = {"timezone": "UTC", "datestyle": "ISO", "standard_conforming_strings": "on"}
# Our tunable. A transaction waits for nothing as long outside of the database; a stopped program would hold its rows for
# ever. The calls of devices have a shorter one (transaction.py).
_LIMITS = {"idle_in_transaction_session_timeout": "'60s'"}
_SET = "".join(f"SET {name} = {value}; " for name, value in (SERVER_SETTINGS | _FORMATS | _LIMITS).items())
# Ask the server itself, because a pooler may report the start parameters of a former server.
_TAKES_WRITES = """DO $$ BEGIN
IF current_setting('transaction_read_only')::boolean THEN
    RAISE read_only_sql_transaction USING MESSAGE = 'the server takes no writes';
END IF;
END $$"""

# Short, because a server that stops during a connection would otherwise delay the caller for a minute.
_CONNECT_SECONDS = 5.0
# When a firewall or a broken cable hides the server, nothing ends the connection. With these options the kernel ends it
# after so many seconds without an answer. By default it waits a quarter of an hour, or for ever on an idle connection
# (tcp(7)).
_SILENT_SECONDS = 15
_PROBES = {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 2}

# The authority of a URL as libpq reads it, which may name several servers (PostgreSQL's manual, section 34.1.1.2).
_AUTHORITY = re.compile(r"(?P<user>(?:[^:/@]*(?::[^@]*)?@)?)(?P<servers>[^/?]*)(?P<rest>.*)", re.DOTALL)
_SERVER = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*|[^\[]*:[^\[]*:[^\[]*)(?::(?P<port>\d+))?")
_PORT = "5432"

Database = async_sessionmaker[AsyncSession]


def parse_url(database_url: str) -> URL:
    """A `postgresql://…` URL. Several servers are the parameters `host=A,B` and `port=A,B`. Raises ValueError."""
    scheme, separator, rest = database_url.partition("://")
    parts = _AUTHORITY.fullmatch(rest)
    if scheme not in {"postgresql", "postgres", "postgresql+asyncpg"} or not separator or parts is None:
        raise ValueError("the database URL must start with postgresql://")
    named = parts["servers"] if "," in parts["servers"] else ""
    url = make_url(f"postgresql+asyncpg://{parts['user']}{'' if named else parts['servers']}{parts['rest']}")
    if url.query.get("target_session_attrs", "any") not in {"any", "primary", "read-write"}:
        raise ValueError("target_session_attrs must be read-write: a standby takes no writes")
    url = url.difference_update_query(["target_session_attrs"])
    servers = (named or _join_parameter(url, "host")).split(",")
    if len(servers) == 1:
        return url
    found = [_SERVER.fullmatch(it) for it in servers]
    ports = _join_parameter(url, "port").split(",")
    ports = ports * len(servers) if len(ports) == 1 else ports
    if None in found or len(ports) != len(servers):
        raise ValueError("the database URL must have a host, and a port or none, for each server")
    hosts = [it["host"].strip("[]") if it else "" for it in found]
    ports = [(it["port"] if it else "") or port or _PORT for it, port in zip(found, ports, strict=True)]
    return url.update_query_dict({"host": ",".join(hosts), "port": ",".join(ports)})


def _join_parameter(url: URL, parameter: str) -> str:
    given = url.query.get(parameter, "")
    return given if isinstance(given, str) else ",".join(given)


def create_engine(database_url: str, *, pool_size: int = 10, pooled: bool = False) -> AsyncEngine:
    """An engine for `postgresql://…` or `postgresql+asyncpg://…`; connects on first use, so it does not fail.

    A Unix socket is `postgresql://USER@/DATABASE?host=/socket/directory`. TLS is as in `culvert_db.tls`. `pooled`: the URL
    leads to a pooler that may give each transaction another session (PgBouncer's pool_mode=transaction), so that no
    statement and no setting outlives its transaction. Raises ValueError.
    """
    url = parse_url(database_url)
    engine = create_async_engine(
        url,
        pool_size=pool_size,
        max_overflow=pool_size,
        native_inet_types=False,
        connect_args={
            "timeout": _CONNECT_SECONDS,
            "async_creator_fn": _Servers(Tls.of(url), _TAKES_WRITES if pooled else _SET + _TAKES_WRITES),
            "server_settings": _AT_START,
        }
        | ({"statement_cache_size": 0, "prepared_statement_cache_size": 0} if pooled else {}),
        # Exceptions and logs must not show parameters, which may be ciphertext or hashes.
        hide_parameters=True,
    )
    event.listen(engine.sync_engine, "connect", _end_when_silent)

    def learn(connection: DBAPIConnection, _record: object) -> None:
        learn_collation(connection, engine.dialect)

    event.listen(engine.sync_engine, "first_connect", learn)
    event.listen(engine.sync_engine, "checkout", _still_open)
    event.listen(engine.sync_engine, "handle_error", _give_up)
    return engine


class _Servers:
    """Connects to the first of the URL's servers that takes writes, beginning with the server of the last connection."""

    def __init__(self, tls: Tls, begin: str) -> None:
        self._tls = tls
        self._begin = begin
        self._last = 0

    async def __call__(self, **options: Any) -> Any:
        if not isinstance(options.get("host"), list):
            return await self._connect(options)
        servers: list[tuple[str, int]] = list(zip(options.pop("host"), options.pop("port"), strict=True))
        fault: Exception | None = None
        for number in sorted(range(len(servers)), key=lambda it: it != self._last):
            try:
                host, port = servers[number]
                connection = await self._connect({**options, "host": host, "port": port})
            except Exception as error:
                # Prefer another server's error to a standby's refusal.
                fault = error if fault is None or sqlstate(fault) == READ_ONLY else fault
            else:
                self._last = number
                return connection
        assert fault is not None
        raise fault

    async def _connect(self, options: Mapping[str, Any]) -> Any:
        connection = await self._tls.connect(**options)
        try:
            # Without arguments asyncpg uses the simple protocol, which needs no prepared statement.
            await connection.execute(self._begin, timeout=_CONNECT_SECONDS)
        except BaseException:
            connection.terminate()
            raise
        return connection


def _give_up(context: ExceptionContext) -> None:
    # Makes the pool drop all its connections, which lead to the same server.
    if sqlstate(context.original_exception) == READ_ONLY:
        context.is_disconnect = True


def _end_when_silent(connection: Any, _record: object) -> None:
    # asyncpg has no option for keepalive, and no public access to its socket.
    used: socket.socket = connection.driver_connection._transport.get_extra_info("socket")
    if used.family in (socket.AF_INET, socket.AF_INET6):
        used.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _SILENT_SECONDS)
        used.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _PROBES.items():
            used.setsockopt(socket.IPPROTO_TCP, option, value)


def _still_open(connection: Any, _record: object, _proxy: object) -> None:
    """Replace connections that broke in the pool. The driver knows their state without a round trip."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def bind_database(engine: AsyncEngine) -> Database:
    """A Database whose objects stay readable after the commit."""
    return async_sessionmaker(engine, expire_on_commit=False)
