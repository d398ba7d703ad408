"""The SHA-256 of each wheel that Linux may install, by its file name: wheels.sha256, as `sha256sum` writes it.

digests.py PYLOCK     write the file from uv's pylock.toml (PEP 751), for `make lock`

requirements.lock has the digests of all files of a release, and not which file each is of.
"""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from pathlib import Path

from package import ROOT
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name, parse_wheel_filename

_FILE = ROOT / "deploy/dependencies/wheels.sha256"
_PLATFORM = re.compile(r"any|.*manylinux.*_(x86_64|aarch64)(\..*)?")


def find_digest(name: str, version: str, about: str) -> tuple[str, str] | None:
    """Algorithm and value for an installed package; None if the lock has no such wheel. `about`: the text of its WHEEL."""
    tags = frozenset(tag for it in re.findall(r"^Tag: (\S+)$", about, re.MULTILINE) for tag in parse_tag(it))
    found = _read().get((canonicalize_name(name), version, tags))
    return None if found is None else ("SHA-256", found)


@cache
def _read() -> dict[tuple[str, str, frozenset[Tag]], str]:
    found: dict[tuple[str, str, frozenset[Tag]], str] = {}
    for line in _FILE.read_text().splitlines():
        digest, file = line.split("  ")
        name, version, _, tags = parse_wheel_filename(file)
        found[name, str(version), tags] = digest
    return found


def main() -> None:
    packages = tomllib.loads(Path(sys.argv[1]).read_text())["packages"]
    wheels = [wheel for package in packages for wheel in package.get("wheels", [])]
    digests = {wheel["url"].rpartition("/")[2]: wheel["hashes"]["sha256"] for wheel in wheels}
    kept = {
        it: digest
        for it, digest in digests.items()
        if _PLATFORM.fullmatch(it.removesuffix(".whl").rpartition("-")[2])
    }
    _FILE.write_text("".join(f"{digest}  {it}\n" for it, digest in sorted(kept.items())))


if __name__ == "__main__":
    main()
