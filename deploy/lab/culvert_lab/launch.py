"""Becomes another program inside a namespace. Run as `python -I -S launch.py`: nothing but the standard library.

  launch.py --netns /run/netns/NAME --parent PID [--bind SOURCE TARGET]... -- PROGRAM ARGUMENT...

die with the parent ─► enter the network namespace ─► private mounts, binds ─► exec PROGRAM
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--netns", required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--bind", nargs=2, action="append", default=[])
    parser.add_argument("argv", nargs="+")
    options = parser.parse_args()
    try:
        _become(options.netns, options.parent, options.bind, options.argv)
    except OSError as error:
        print(f"launch: {options.argv[0]}: {error}", file=sys.stderr)
        sys.exit(127)


def _become(netns: str, parent: int, binds: list[list[str]], argv: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int, what: str) -> None:
        if result != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), what)

    check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        raise OSError("the lab has ended")
    with open(netns, "rb") as namespace:  # noqa: PTH123 - pathlib costs 10 ms at each start
        check(libc.setns(namespace.fileno(), CLONE_NEWNET), netns)
    if binds:
        check(libc.unshare(CLONE_NEWNS), "unshare")
        check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
        for source, target in binds:
            check(
                libc.mount(source.encode(), target.encode(), None, MS_BIND | MS_REC, None),
                f"bind {source} on {target}",
            )
    os.execvp(argv[0], argv)  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    main()
