"""The SBOM of an artefact, CycloneDX 1.6. One commit gives the same bytes each time.

sbom.py ARTEFACT [SITE-PACKAGES]     printed; with the wheels that are installed there
sbom.py                              build/sbom/ARTEFACT.cdx.json for each
"""

# The library's classes are decorated, and basedpyright does not know the arguments of what the decorator returns.
# pyright: reportCallIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from artefacts import ARTEFACTS, Artefact, find_artefact
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from package import ROOT, Package
from packageurl import PackageURL

_NAMESPACE = uuid.UUID("5b7b9a1c-37d2-4f0e-8a5e-2d9c0f6b1e44")


def render_sbom(name: str, licence: str, packages: Sequence[Package], version: str, when: datetime) -> str:
    """The document of an artefact, as JSON."""
    artefact = Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=name,
        licenses=[LicenseExpression(licence)],
    )
    bom = Bom(
        components=[_describe(it) for it in packages],
        metadata=BomMetaData(component=artefact, timestamp=when),
        serial_number=uuid.uuid5(_NAMESPACE, f"{name} {version} {when.isoformat()}"),
    )
    bom.register_dependency(artefact, bom.components)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)


def _describe(package: Package) -> Component:
    scope, _, name = package.name.rpartition("/")
    purl = PackageURL(package.kind, scope or None, name, package.version)
    return Component(
        name=name,
        group=scope or None,
        version=package.version,
        bom_ref=str(purl),
        purl=purl,
        licenses=[LicenseExpression(package.licence)],
        hashes=[HashType(alg=HashAlgorithm(package.digest[0]), content=package.digest[1])]
        if package.digest
        else [],
        components=[
            Component(
                name=it.name,
                version=it.version,
                bom_ref=f"{purl}#{number}",
                purl=PackageURL.from_string(it.purl) if it.purl else None,
            )
            for number, it in enumerate(package.contains)
        ],
    )


def _read(artefact: Artefact, site_packages: Path | None = None) -> str:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    commit = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    when = datetime.fromtimestamp(int(subprocess.check_output(commit)), UTC)
    return render_sbom(artefact.name, artefact.licence, artefact.find_packages(site_packages), version, when)


def render_image_sbom(artefact: Mapping[str, Any], debian: Sequence[Mapping[str, str]]) -> str:
    """The document of an image, as JSON: what the artefact's own names, and Debian's packages by their control fields."""
    document = json.loads(json.dumps(artefact))
    document["metadata"]["component"]["type"] = "container"
    document["serialNumber"] = (
        f"urn:uuid:{uuid.uuid5(_NAMESPACE, json.dumps([artefact, debian], sort_keys=True))}"
    )
    for fields in debian:
        name, version = fields["Package"], fields["Version"]
        purl = str(PackageURL("deb", "debian", name, version, {"arch": fields["Architecture"]}))
        document["components"].append(
            {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        )
    return json.dumps(document, indent=1) + "\n"


def main() -> None:
    if len(sys.argv) > 1:
        print(_read(find_artefact(sys.argv[1]), *map(Path, sys.argv[2:])))
        return
    directory = ROOT / "build/sbom"
    directory.mkdir(parents=True, exist_ok=True)
    for artefact in ARTEFACTS:
        path = directory / f"{artefact.name}.cdx.json"
        path.write_text(_read(artefact))
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
