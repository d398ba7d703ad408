"""culvert-lab: the demo, and ways into the lab while it is up.

Exit status: 0 all held; 1 something did not, or could not be done, and the text says what; 74 the output cannot be written;
130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from culvert_proto.output import check_output

from culvert_lab import administrator, demo, parts
from culvert_lab.errors import LabError
from culvert_lab.expose import expose
from culvert_lab.lab import Lab, environment, find_running, launch_argv
from culvert_lab.topology import REST_PORT, Site, site_of


def main(arguments: Sequence[str] | None = None) -> int:
    with check_output("culvert-lab"):
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    try:
        match options.command:
            case "demo":
                return _run(demo.run(check=options.check), stopped=1 if options.check else 0)
            case "code":
                find_running()
                print(administrator.code(demo.BUILD / "lab"))
                return 0
            case "down":
                return _run(_down(), stopped=130)
            case "expose":
                find_running()
                return _run(expose(options.port), stopped=0)
            case "shell":
                _become(options.site, ["/bin/bash", "--norc", "--noprofile"])
            case _:
                _become(options.site, options.argv)
    except (LabError, OSError) as error:
        print(f"\nculvert-lab: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="culvert-lab", description="Culvert's demo network.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('culvert-lab')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    shown = commands.add_parser("demo", help="build the network, open the first page, stay up")
    shown.add_argument("--check", action="store_true", help="end with the verdict instead of staying up")
    commands.add_parser("code", help="a code with which the demo's administrator signs in to the console")
    commands.add_parser("down", help="clean up after a lab that was killed")
    exposed = commands.add_parser(
        "expose", help="let a browser on this machine reach the console and the REST API at another port"
    )
    exposed.add_argument("--port", type=int, default=REST_PORT)
    shell = commands.add_parser("shell", help="a shell at a site of the lab that is up")
    shell.add_argument("site", type=_site, help=", ".join(site.short for site in Site))
    run = commands.add_parser("run", help="run a program at a site of the lab that is up")
    run.add_argument("site", type=_site)
    run.add_argument("argv", nargs=argparse.REMAINDER)
    return parser


def _run(work: Coroutine[Any, Any, None], *, stopped: int) -> int:
    """Run to the end; a signal cancels once, and the clean-up after it is left alone. `stopped` is the status then."""

    async def supervised() -> int:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, _cancel_once(task))
        try:
            await task
        except asyncio.CancelledError:
            return stopped
        return 0

    return asyncio.run(supervised())


def _cancel_once(task: asyncio.Future[None]) -> Any:
    def cancel() -> None:
        if not cancelled:
            cancelled.append(True)
            task.cancel()
            with contextlib.suppress(OSError):  # the terminal may be what went away
                print(flush=True)

    cancelled: list[bool] = []
    return cancel


async def _down() -> None:
    lab = Lab(demo.BUILD / "lab")
    await lab.up(network=False)
    await lab.down()
    print("No process and no namespace of a lab is left.")


def _site(word: str) -> Site:
    try:
        return site_of(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _become(site: Site, argv: list[str]) -> NoReturn:
    find_running()
    command = launch_argv(demo.BUILD / "lab", site, argv, parent=os.getppid())
    programs = str(parts.PROGRAMS)
    env = environment(site)
    env["PATH"] = f"{programs}:{env.get('PATH', '')}"
    env["PS1"] = f"[{site.short}] \\w \\$ "
    os.execve(command[0], command, env)  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    sys.exit(main())
