"""culvertd: reads its configuration, blocks protected prefixes, and runs the daemon until a signal stops it."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import sys
from collections.abc import Sequence

from culvert_proto import CulvertError
from culvert_proto.output import check_output
from culvert_proto.private_memory import keep_memory_private, warn_if_not_locked

from culvert_client import config
from culvert_client.closed import read_blocked
from culvert_client.daemon.daemon import Daemon
from culvert_client.enrolments import Enrolments
from culvert_client.local.front import AnotherDaemonError, Front
from culvert_client.platform import UnsupportedSystemError, daemon_platform
from culvert_client.platform.interfaces import DaemonPlatform
from culvert_client.reopening import Reopening

_log = logging.getLogger("culvertd")

# Remedies of file system errors, whose texts name the path.
_REMEDIES = {
    errno.ENOSPC: "Free space on that disk, then start culvertd again.",
    errno.EDQUOT: "Free space on that disk, then start culvertd again.",
    errno.EROFS: "Make that file system writable, or set state_dir to a directory on another.",
    errno.EACCES: "Start culvertd as root, or set state_dir to a directory that it may write.",
    errno.EPERM: "Let culvertd change that file (an immutable file: chattr -i), or set dns_mode to watch.",
}


async def _serve(settings: config.Config, platform: DaemonPlatform) -> None:
    warn_if_not_locked()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    front = Front(settings.socket, platform.callers)
    try:
        # Before any change, so that another running culvertd is not disturbed.
        front.claim()
    except AnotherDaemonError:
        raise
    except OSError as error:
        _log.error("the local socket cannot be used: %s", error)
    path, names = Reopening(settings, platform.datapaths), platform.name_services
    # First block the stored prefixes, so that they stay blocked even if the start fails.
    await path.block(read_blocked(settings.state_dir, names, settings.public_prefixes))
    enrolments = Enrolments(settings.state_dir)
    untouched = settings.dns_upstream or settings.dns_mode is config.DnsMode.WATCH
    dns = None if untouched else names.system_dns(settings.dns_listen, settings.state_dir)
    restored = await Daemon(settings, enrolments, path, platform, dns, front).run(stopped)
    # Only after a requested stop: after a crash, and until a restart has ended, the datapath keeps blocking.
    await path.close(unblock=not platform.process.is_restarted())
    if not restored:
        # The unit cleans up after each end but a successful one.
        sys.exit(1)


async def _clean_up(settings: config.Config, platform: DaemonPlatform) -> None:
    """Restore the name service; after a requested stop also remove the datapath: else it keeps blocking."""
    front = Front(settings.socket, platform.callers)
    # Ensure that no culvertd runs and uses the settings.
    front.claim()
    try:
        await platform.name_services.clean_up(settings.state_dir)
        if platform.process.was_stopped() and not platform.process.is_restarted():
            await platform.datapaths.clean_up()
    finally:
        await front.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit codes: 0 stopped or cleaned up, 1 could not, 2 bad configuration, 74 the output cannot be written."""
    with check_output("culvertd"):
        _main(arguments)


def _main(arguments: Sequence[str] | None) -> None:
    try:
        platform = daemon_platform()
    except UnsupportedSystemError as error:
        print(f"culvertd: cannot start: {error}", file=sys.stderr)
        sys.exit(1)
    platform.process.keep_small()
    keep_memory_private()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s", stream=sys.stderr)
    cleanup = False
    try:
        settings, cleanup = config.command_line(platform.paths, arguments)
        asyncio.run(_clean_up(settings, platform) if cleanup else _serve(settings, platform))
    except config.ConfigError as error:
        print(f"culvertd: {error}", file=sys.stderr)
        sys.exit(2)
    except (OSError, CulvertError) as error:
        print(f"culvertd: cannot {'clean up' if cleanup else 'start'}: {error}", file=sys.stderr)
        if isinstance(error, OSError) and (remedy := _REMEDIES.get(error.errno or 0)):
            print(f"culvertd: {remedy}", file=sys.stderr)
        sys.exit(1)
