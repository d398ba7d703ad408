"""Makes two builds of one commit the same, bit for bit, whatever their folder and time.

Paths of the folder and of Cargo's are left out of programs; times are the commit's; owners are root (dpkg-deb), members are
in order (dpkg-deb).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Apart from the developer's own, which has other flags.
TARGET = ROOT / "build/deb-target"


def read_commit_time() -> int:
    """Seconds since 1970, as SOURCE_DATE_EPOCH has them."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def cargo_build(*arguments: str) -> Path:
    """The directory of what was built for release. Raises CalledProcessError."""
    cargo = Path(os.environ.get("CARGO_HOME", "~/.cargo")).expanduser()
    remapped = {ROOT: "/usr/src/culvert", cargo: "/usr/src/cargo"}
    flags = " ".join(f"--remap-path-prefix={path}={shown}" for path, shown in remapped.items())
    own = {
        "CARGO_TARGET_DIR": str(TARGET),
        "CARGO_INCREMENTAL": "0",
        # The package has no debug symbols, and the linker's build id would depend on their paths.
        "CARGO_PROFILE_RELEASE_DEBUG": "false",
        "RUSTFLAGS": flags,
        "SOURCE_DATE_EPOCH": str(read_commit_time()),
        # The package `p4runtime`, for sluice's build script.
        "CULVERT_PYTHON": sys.executable,
    }
    command = ["cargo", "build", "-q", "--release", "--locked", *arguments]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | own)
    return TARGET / "release"


def pack(stage: Path, package: Path) -> None:
    """Write the .deb of the staged files. Raises CalledProcessError, OSError."""
    when = read_commit_time()
    stage.chmod(0o755)
    for entry in [stage, *stage.rglob("*")]:
        os.utime(entry, (when, when), follow_symlinks=False)
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", str(stage), str(package)]
    own = {"SOURCE_DATE_EPOCH": str(when)}
    subprocess.run(command, check=True, env=os.environ | own, stdout=subprocess.DEVNULL)
