"""`make deb`: every package, for each release, into build/packages.

release.py [--package NAME]... [--changed] [RELEASE]...     all of them unless stated; RELEASE: deb12, deb13, ubuntu24.04
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from layout import client, controller, gateway, tray
from releases import RELEASES, ROOT, Release, check_this_computer, find_release

_WORK = ROOT / "build/deb"
PACKAGES: dict[str, Callable[[Release], Path]] = {
    it.NAME: it.build for it in (client, tray, controller, gateway)
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--package", action="append", choices=PACKAGES)
    parser.add_argument(
        "--changed", action="store_true", help="not again what was built from exactly these sources"
    )
    parser.add_argument("release", nargs="*")
    chosen = parser.parse_args()
    try:
        releases = [find_release(it) for it in chosen.release] or RELEASES
        check_this_computer(releases)
        sources = _identify_sources()
        for release in releases:
            for name in chosen.package or PACKAGES:
                built = _WORK / release.tag / f"{name}.built"
                if chosen.changed and built.exists() and built.read_text() == sources:
                    continue
                built.unlink(missing_ok=True)
                print(PACKAGES[name](release).relative_to(ROOT), flush=True)
                built.write_text(sources)
    except (subprocess.CalledProcessError, LookupError, OSError) as error:
        sys.exit(f"the package was not built: {error}\n{getattr(error, 'stderr', None) or ''}")


def _identify_sources() -> str:
    """The same for the same commit with the same changes to it. Raises CalledProcessError."""
    told = [
        subprocess.run(["git", "-C", str(ROOT), *it.split()], check=True, capture_output=True).stdout
        for it in ("rev-parse HEAD", "diff HEAD", "ls-files --others --exclude-standard")
    ]
    return hashlib.sha256(b"\0".join(told)).hexdigest()


if __name__ == "__main__":
    main()
