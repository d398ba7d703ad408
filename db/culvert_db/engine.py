"""The one way to reach Postgres: asyncpg, with INET and CIDR as text in both directions."""

from __future__ import annotations

import socket
from typing import Any

from sqlalchemy import event, make_url
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from culvert_db.tls import Tls

# A statement is planned once a connection, and not for each of its values. That plan outlives the moment in which a table
# was small enough to be read whole: thousands may enrol before Postgres looks at it again. What has to be read whole counts
# as so dear then that Postgres would compile it.
SERVER_SETTINGS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}

# When a firewall or a broken cable hides the server, nothing ends the connection. With these options the kernel ends it
# after so many seconds without an answer. By default it waits a quarter of an hour, or for ever on an idle connection
# (tcp(7)).
_SILENT_SECONDS = 15
_PROBES = {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 2}

Sessions = async_sessionmaker[AsyncSession]


def create_engine(database_url: str, *, pool_size: int = 10) -> AsyncEngine:
    """An engine for `postgresql://…` or `postgresql+asyncpg://…`; connects on first use, so it does not fail.

    A Unix socket is `postgresql://USER@/DATABASE?host=/socket/directory`. TLS is as in `culvert_db.tls`. Raises ValueError.
    """
    scheme, separator, rest = database_url.partition("://")
    if scheme not in {"postgresql", "postgres", "postgresql+asyncpg"} or not separator:
        raise ValueError("the database URL must start with postgresql://")
    url = make_url(f"postgresql+asyncpg://{rest}")
    engine = create_async_engine(
        url,
        pool_size=pool_size,
        max_overflow=pool_size,
        native_inet_types=False,
        # A server that stops just then would otherwise hold the caller for a minute.
        connect_args={
            "timeout": 5.0,
            "async_creator_fn": Tls.of(url).connect,
            "server_settings": SERVER_SETTINGS,
        },
        # Parameters may hold ciphertext and hashes: no exception or log line repeats them.
        hide_parameters=True,
    )
    event.listen(engine.sync_engine, "connect", _end_when_silent)
    event.listen(engine.sync_engine, "checkout", _still_open)
    return engine


def _end_when_silent(connection: Any, _record: object) -> None:
    # asyncpg has no option for keepalive, and no public access to its socket.
    used: socket.socket = connection.driver_connection._transport.get_extra_info("socket")
    if used.family in (socket.AF_INET, socket.AF_INET6):
        used.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _SILENT_SECONDS)
        used.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _PROBES.items():
            used.setsockopt(socket.IPPROTO_TCP, option, value)


def _still_open(connection: Any, _record: object, _proxy: object) -> None:
    """What broke while it lay in the pool is replaced before anybody has it; asking the driver costs no round trip."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def create_sessions(engine: AsyncEngine) -> Sessions:
    """Sessions whose objects stay readable after the commit."""
    return async_sessionmaker(engine, expire_on_commit=False)
