"""culvert-dns-updater: `run` as a daemon, `once` for one pass.

Exit codes: 0 all names are live (`once`), or stopped (`run`); 1 something is not live, and its state in the
database says why; 2 the settings are wrong; 3 the database does not answer (`once`); 74 the output cannot be written.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from importlib.metadata import version
from pathlib import Path

from culvert_db import log
from culvert_proto import service_manager
from culvert_proto.output import check_output
from culvert_proto.private_memory import keep_memory_private, warn_if_not_locked

from culvert_dns_updater import monitoring
from culvert_dns_updater.keeper import Means, Outcome
from culvert_dns_updater.settings import Settings, SettingsError, load
from culvert_dns_updater.store import Store, StoreError
from culvert_dns_updater.tsig_key import KeyDirectory
from culvert_dns_updater.updater import Updater

_log = logging.getLogger(__name__)

_EXIT_INCOMPLETE = 1
_EXIT_SETTINGS = 2
_EXIT_DATABASE = 3


def main(arguments: Sequence[str] | None = None) -> int:
    with check_output("culvert-dns-updater"):
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="culvert-dns-updater", description="Keeps the DNS zones equal to Culvert's resources."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('culvert-dns-updater')}")
    parser.add_argument("command", choices=("run", "once"), help="stay and follow changes, or make one pass")
    parser.add_argument(
        "--config", type=Path, help="TOML file; CULVERT_DNS_* in the environment wins over it"
    )
    options = parser.parse_args(arguments)
    keep_memory_private()
    try:
        settings = load(options.config)
        log.configure(as_json=settings.log_json)
        return asyncio.run(_run(settings) if options.command == "run" else _once(settings))
    except SettingsError as error:
        print(f"culvert-dns-updater: {error}", file=sys.stderr)
        return _EXIT_SETTINGS


async def _once(settings: Settings) -> int:
    async with _updater(settings) as updater:
        try:
            outcome = await updater.run_once()
        except StoreError as error:
            print(f"culvert-dns-updater: {error}", file=sys.stderr)
            return _EXIT_DATABASE
    return 0 if outcome is Outcome.LIVE else _EXIT_INCOMPLETE


async def _run(settings: Settings) -> int:
    warn_if_not_locked()
    async with _updater(settings) as updater, _serve_monitoring(settings, updater):
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, updater.stop)
        _log.info("ready", extra={"key_dir": str(settings.key_dir)})
        service_manager.tell_ready()
        await updater.run(settings.poll_seconds, settings.lease_seconds)
    return 0


@contextlib.asynccontextmanager
async def _serve_monitoring(settings: Settings, updater: Updater) -> AsyncGenerator[None]:
    listen = settings.monitoring_listen
    async with contextlib.AsyncExitStack() as stack:
        if listen is not None:
            try:
                await stack.enter_async_context(
                    monitoring.serve(listen, updater.instruments, updater.is_ready)
                )
            except (OSError, OverflowError):
                raise SettingsError(f"monitoring_listen: cannot listen on {listen}") from None
        yield


@contextlib.asynccontextmanager
async def _updater(settings: Settings) -> AsyncGenerator[Updater]:
    # The random part makes it unique, because host names and process ids repeat.
    holder = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
    try:
        store = Store(settings.database(), holder, settings.lease_seconds)
    except ValueError as error:
        raise SettingsError(f"database_url: {error}") from None
    try:
        yield Updater(Means(store, KeyDirectory(settings.key_dir), settings.timeout_seconds))
    finally:
        await store.close()
