"""`make deb-sluice`: build/sluice_VERSION_ARCH.deb, the P4 switch for developers.

sluice, as built for this ─────► /usr/bin
switch-targets/sluice/mininet ─► /usr/lib/python3/dist-packages, /usr/lib/sluice/bmv2
"""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from reproducible import cargo_build, pack

ROOT = Path(__file__).resolve().parents[2]
FILES = Path(__file__).parent / "files"
WORK = ROOT / "build/deb-sluice"
STAGE = WORK / "root"
SWITCH = ROOT / "switch-targets/sluice"
DOCUMENTS = "usr/share/doc/sluice"
# The destination of each file, and its mode.
PLACES = {
    SWITCH / "mininet/sluice_mininet.py": ("usr/lib/python3/dist-packages/sluice_mininet.py", 0o644),
    SWITCH / "mininet/simple_switch_grpc": ("usr/lib/sluice/bmv2/simple_switch_grpc", 0o755),
    SWITCH / "p4include/packet_hash.p4": ("usr/share/sluice/p4include/packet_hash.p4", 0o644),
    SWITCH / "README.md": (f"{DOCUMENTS}/README.md", 0o644),
}


def build() -> Path:
    """The package's path. Raises CalledProcessError, OSError."""
    shutil.rmtree(WORK, ignore_errors=True)
    _add("usr/bin/sluice", (cargo_build("-p", "sluice") / "sluice").read_bytes(), 0o755)
    for source, (place, mode) in PLACES.items():
        _add(place, source.read_bytes(), mode)
    _run("strip", "--strip-unneeded", str(STAGE / "usr/bin/sluice"))
    notices = _output(sys.executable, str(ROOT / "deploy/dependencies/notices.py"), "sluice")
    _add(f"{DOCUMENTS}/copyright", f"{(FILES / 'sluice/copyright').read_text()}{notices}\n".encode())
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    when = _output("git", "-C", str(ROOT), "log", "-1", "--format=%cD")
    control = (FILES / "sluice/control").read_text()
    maintainer = re.findall(r"^Maintainer: (.*)$", control, re.MULTILINE)[0]
    entry = f"sluice ({version}) stable; urgency=medium\n\n  * See the project's history.\n\n -- {maintainer}  {when}\n"
    _add(f"{DOCUMENTS}/changelog.gz", gzip.compress(entry.encode(), mtime=0))
    files = sorted(it for it in STAGE.rglob("*") if it.is_file())
    fields = {
        "version": version,
        "architecture": _output("dpkg", "--print-architecture"),
        "installed": str(sum(it.stat().st_size for it in files) // 1024),
        "depends": f"{_link_dependencies()}, python3",
    }
    sums = [
        f"{hashlib.md5(it.read_bytes(), usedforsecurity=False).hexdigest()}  {it.relative_to(STAGE)}\n"
        for it in files
    ]
    _add("DEBIAN/control", re.sub(r"@(\w+)@", lambda found: fields[found[1]], control).encode())
    _add("DEBIAN/md5sums", "".join(sums).encode())
    for folder in (it for it in STAGE.rglob("*") if it.is_dir()):
        folder.chmod(0o755)
    package = ROOT / f"build/sluice_{version}_{fields['architecture']}.deb"
    pack(STAGE, package)
    return package


def _link_dependencies() -> str:
    (WORK / "debian").mkdir()
    (WORK / "debian/control").write_text("Source: sluice\n\nPackage: sluice\nArchitecture: any\n")
    command = ["dpkg-shlibdeps", "-O", f"-e{STAGE / 'usr/bin/sluice'}"]
    said = subprocess.run(command, cwd=WORK, check=True, capture_output=True, text=True).stdout
    return said.strip().removeprefix("shlibs:Depends=")


def _add(place: str, content: bytes, mode: int = 0o644) -> None:
    path = STAGE / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    try:
        print(build().relative_to(ROOT))
    except (subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"the package was not built: {error}\n{getattr(error, 'stderr', None) or ''}")
