"""culvertd: reads its configuration, opens the datapath, and runs the loop until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence

from culvert_proto import CulvertError

from culvert_client import config
from culvert_client.backend import open_datapath
from culvert_client.loop import Daemon
from culvert_client.state_dir import StateDir


async def _serve(settings: config.Config) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    path = await open_datapath(settings)
    try:
        await Daemon(settings, StateDir(settings.state_dir), path).run(stopped)
    finally:
        await path.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit codes: 0 stopped, 1 could not start, 2 bad configuration."""
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        asyncio.run(_serve(config.load(arguments)))
    except config.ConfigError as error:
        print(f"culvertd: {error}", file=sys.stderr)
        sys.exit(2)
    except (OSError, CulvertError) as error:
        print(f"culvertd: cannot start: {error}", file=sys.stderr)
        sys.exit(1)
