"""`make deb`: every package, for each release, into build/packages.

release.py [--package NAME]... [RELEASE]...     all of them unless stated; RELEASE: deb12, deb13, ubuntu24.04
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from layout import client, controller, gateway, tray
from releases import RELEASES, ROOT, Release, check_this_computer, find_release

PACKAGES: dict[str, Callable[[Release], Path]] = {
    it.NAME: it.build for it in (client, tray, controller, gateway)
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--package", action="append", choices=PACKAGES)
    parser.add_argument("release", nargs="*")
    chosen = parser.parse_args()
    try:
        releases = [find_release(it) for it in chosen.release] or RELEASES
        check_this_computer(releases)
        for release in releases:
            for name in chosen.package or PACKAGES:
                print(PACKAGES[name](release).relative_to(ROOT), flush=True)
    except (subprocess.CalledProcessError, LookupError, OSError) as error:
        sys.exit(f"the package was not built: {error}\n{getattr(error, 'stderr', None) or ''}")


if __name__ == "__main__":
    main()
