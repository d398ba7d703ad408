"""The packages of a next version: those of this one, and a migration more in the controller's."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from releases import ROOT

_NEXT_RELEASE = ROOT / "service/tests/next_release.py"
_VERSION = re.compile(r"^Version: ((\d+)\.(\d+)\.\d+(\S+))$", re.MULTILINE)


def make_next(package: Path, folder: Path) -> Path:
    """The package with the next version, in the folder. Raises CalledProcessError, OSError."""
    root = folder / package.stem
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(root)], check=True)
    control = root / "DEBIAN/control"
    [(old, major, minor, rest)] = _VERSION.findall(control.read_text())
    new = f"{major}.{int(minor) + 1}.0{rest}"
    # Also where a package asks for another one of its own version.
    control.write_text(control.read_text().replace(old, new))
    for code in root.rglob("site-packages/culvert_db"):
        _add_migration(code, folder / "next-release")
    made = folder / package.name.replace(old, new)
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(root), str(made)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(root)
    return made


def _add_migration(code: Path, folder: Path) -> None:
    subprocess.run([sys.executable, str(_NEXT_RELEASE), str(folder)], check=True, stdout=subprocess.DEVNULL)
    for changed in ("migrate.py", "migrations/versions/9001_next.py"):
        shutil.copyfile(folder / "culvert_db" / changed, code / changed)
    # Compiled modules are not compared with their sources.
    for compiled in code.glob("__pycache__/migrate.*"):
        compiled.unlink()
