"""culvert-gateway: the switch of a gateway and its unit. It starts nothing by itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

from releases import ROOT, Release
from reproducible import cargo_build
from stage import Stage

NAME = "culvert-gateway"
# Crate and program have one name.
_PROGRAMS = ("sluice", NAME)
_PLACES = {
    ROOT / "deploy/systemd/sluice@.service": "usr/lib/systemd/system/sluice@.service",
    ROOT / f"deploy/systemd/{NAME}-watch@.service": f"usr/lib/systemd/system/{NAME}-watch@.service",
    ROOT / f"deploy/systemd/{NAME}-renew.service": f"usr/lib/systemd/system/{NAME}-renew.service",
    ROOT / f"deploy/systemd/{NAME}-renew.timer": f"usr/lib/systemd/system/{NAME}-renew.timer",
    ROOT / "deploy/systemd/sluice.sysusers": "usr/lib/sysusers.d/culvert-gateway.conf",
    ROOT / "deploy/systemd/sluice.env.example": f"usr/share/doc/{NAME}/sluice.env.example",
    ROOT / "switch-targets/gateway/README.md": f"usr/share/doc/{NAME}/{NAME}.md",
    ROOT / "switch-targets/sluice/README.md": f"usr/share/doc/{NAME}/sluice.md",
}


def build(release: Release) -> Path:
    """The package's path. Raises CalledProcessError, LookupError, OSError."""
    stage = Stage(NAME, release)
    programs = [stage.root / "usr/bin" / it for it in _PROGRAMS]
    for program in programs:
        built = cargo_build("-p", program.name) / program.name
        stage.content(f"usr/bin/{program.name}", built.read_bytes(), executable=True)
        subprocess.run(["strip", "--strip-unneeded", str(program)], check=True)
    stage.copy(_PLACES)
    stage.documents()
    # libc alone, whose package has one name everywhere: so no root of the release is needed.
    return stage.pack(stage.find_link_dependencies(programs, run=stage.run_here))
