"""The artefacts that are shipped, and the packages of others in each: the table is the place to add one.

`artefacts.py ARTEFACT` prints the part of requirements.lock that the artefact needs.

requirements.lock ─► wheels.py ─┐   with wheels.sha256, by digests.py
Cargo.lock ────────► crates.py ─┼─► packages of an artefact ─► notices.py, sbom.py
package-lock.json ─► npm.py ────┘
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import crates
import npm
import wheels
from package import Package


@dataclass(frozen=True, slots=True)
class Artefact:
    """`parts`: Python packages of ours. `crates`: Rust crates of ours that are linked into a program or module.

    `beside`: parts of another artefact that is always installed with this one, and has its packages of others.
    """

    name: str
    licence: str
    parts: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    crates: tuple[str, ...] = ()
    has_console: bool = False
    has_site: bool = False

    def find_packages(self, site_packages: Path | None = None) -> list[Package]:
        """The packages of others; the wheels as in `site_packages`. Raises CalledProcessError, LookupError."""
        console = npm.find_packages() if self.has_console else []
        site = [wheels.find_site_generator()] if self.has_site else []
        return [
            *wheels.find_packages(self.parts, self.beside, site_packages),
            *crates.find_packages(self.crates),
            *console,
            *site,
        ]


_CLIENT = ("culvert-proto", "culvert-ipsec", "culvert-client")
ARTEFACTS = (
    Artefact("culvert-client", "Apache-2.0", parts=_CLIENT, crates=("culvert_ipsec",)),
    Artefact("culvert-tray", "GPL-3.0-or-later", parts=("culvert-tray",), beside=_CLIENT),
    Artefact(
        "culvert-controller",
        "Apache-2.0",
        parts=(
            "culvert-agent-server",
            "culvert-db",
            "culvert-dns-updater",
            "culvert-proto",
            "culvert-service",
        ),
        crates=("culvert_agent_server",),
        has_console=True,
        has_site=True,
    ),
    Artefact("culvert-gateway", "Apache-2.0", crates=("sluice", "culvert-gateway")),
    Artefact("sluice", "Apache-2.0", crates=("sluice",)),
)


def find_artefact(name: str) -> Artefact:
    """Raises LookupError."""
    for artefact in ARTEFACTS:
        if artefact.name == name:
            return artefact
    raise LookupError(f"there is no artefact {name}: {', '.join(it.name for it in ARTEFACTS)}")


if __name__ == "__main__":
    asked = find_artefact(sys.argv[1])
    print(wheels.cut_lock(asked.parts, asked.beside), end="")
