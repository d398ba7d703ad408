"""The SBOMs are valid CycloneDX 1.6, name what the lock files name, and are the same each time."""

import json
from datetime import UTC, datetime

import pytest
import wheels
from artefacts import ARTEFACTS, Artefact
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from sbom import render_image_sbom, render_sbom

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.slow
@pytest.mark.parametrize("artefact", ARTEFACTS, ids=lambda it: it.name)
def test_an_sbom_is_valid_complete_and_reproducible(artefact: Artefact) -> None:
    packages = artefact.find_packages()
    made = render_sbom(artefact.name, artefact.licence, packages, "1.2.3", WHEN)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(made) is None
    assert made == render_sbom(artefact.name, artefact.licence, list(reversed(packages)), "1.2.3", WHEN)
    read = json.loads(made)
    assert read["specVersion"] == "1.6"
    assert read["metadata"]["component"]["version"] == "1.2.3"
    assert len(read["components"]) == len(packages)
    for component in read["components"]:
        assert component["purl"].startswith(("pkg:pypi/", "pkg:cargo/", "pkg:npm/"))
        assert component["licenses"]
        # The site's generator is not installed where SBOMs are written.
        assert component["name"] == "zensical" or component["hashes"], component["purl"]
    [root] = [it for it in read["dependencies"] if it["ref"] == artefact.name]
    assert len(root["dependsOn"]) == len(packages)


def test_the_digests_of_wheels_are_those_of_the_lock() -> None:
    """`make lock` writes both files."""
    locked = {name: text for name, _, text in wheels.read_lock()}
    packages = [it for artefact in ARTEFACTS for it in wheels.find_packages(artefact.parts, artefact.beside)]
    assert packages
    for package in packages:
        assert package.digest is not None, package.name
        assert f"sha256:{package.digest[1]}" in locked[package.name], package.name


def test_libraries_inside_of_a_wheel_are_named() -> None:
    client = next(it for it in ARTEFACTS if it.name == "culvert-client")
    read = json.loads(render_sbom(client.name, client.licence, client.find_packages(), "1.2.3", WHEN))
    [cryptography] = [it for it in read["components"] if it["name"] == "cryptography"]
    assert "openssl" in {it["name"] for it in cryptography["components"]}


def test_an_images_sbom_names_debians_packages_beside_the_artefacts() -> None:
    gateway = next(it for it in ARTEFACTS if it.name == "culvert-gateway")
    own = json.loads(render_sbom(gateway.name, gateway.licence, gateway.find_packages(), "1.2.3", WHEN))
    debian = [{"Package": "libc6", "Version": "2.36-9+deb12u14", "Architecture": "amd64"}]
    made = render_image_sbom(own, debian)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(made) is None
    read = json.loads(made)
    assert read["metadata"]["component"]["type"] == "container"
    assert len(read["components"]) == len(own["components"]) + 1
    assert read["components"][-1]["purl"] == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64"
