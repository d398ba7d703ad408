"""culvert-client: culvertd and `culvert`, for a desktop or a server."""

from __future__ import annotations

from pathlib import Path

import environment
from releases import ROOT, Release
from stage import FILES, Stage

NAME = "culvert-client"
# The tray's package adds to it.
PREFIX = Path("/usr/lib/culvert")
_PROGRAMS = {"culvert": "culvert_client.cli:app", "culvertd": "culvert_client.daemon:main"}
# The folders in which each shell looks for completion.
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/culvert",
    "zsh": "usr/share/zsh/vendor-completions/_culvert",
    "fish": "usr/share/fish/vendor_completions.d/culvert.fish",
}
_PLACES = {
    ROOT / "deploy/systemd/culvertd.service": "usr/lib/systemd/system/culvertd.service",
    FILES / "client/culvertd.toml": "etc/culvert/culvertd.toml",
    FILES / "client/lintian-overrides": f"usr/share/lintian/overrides/{NAME}",
}


def build(release: Release) -> Path:
    """The package's path. Raises CalledProcessError, LookupError, OSError."""
    stage = Stage(NAME, release)
    site_packages = environment.install(stage, PREFIX, ("proto", "client"), [environment.IPSEC])
    environment.compile_modules(stage, site_packages)
    environment.add_interpreter(stage, PREFIX)
    environment.add_programs(stage, PREFIX, _PROGRAMS)
    inside = site_packages.relative_to(stage.folder)
    for shell, place in _COMPLETIONS.items():
        asked = ("env", f"_CULVERT_COMPLETE=source_{shell}", f"PYTHONPATH={inside}", "python3", "-B")
        program = "from culvert_client.cli import app; app(prog_name='culvert')"
        stage.text(place, stage.run_inside(*asked, "-c", program))
    stage.copy(_PLACES)
    stage.manuals(ROOT / "client/man")
    stage.documents(site_packages)
    linked = stage.find_link_dependencies(environment.find_libraries(site_packages))
    return stage.pack({"python": f"python{release.python}", **linked})
