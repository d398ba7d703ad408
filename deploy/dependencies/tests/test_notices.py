"""Each package that ships is in its lock file, under a licence that permits it, and its text is in the notices."""

import json
import tomllib
from typing import Any

import crates
import npm
import pytest
import wheels
from artefacts import ARTEFACTS, Artefact, find_artefact
from license_expression import get_spdx_licensing
from notices import render_notices
from package import Package, read_licence

# These may be in one program with Apache-2.0: deny.toml's list, and licences of libraries that stay files of their own.
PERMITTED = {
    *("Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "ISC", "MIT", "MIT-0", "MPL-2.0"),
    *("PostgreSQL", "PSF-2.0", "Unicode-3.0", "Unlicense", "W3C", "Zlib"),
}
# The tray alone loads these, and has their licence's terms.
IN_TRAY = {"pyqt6": "GPL-3.0-only", "pyqt6-qt6": "LGPL-3.0-only"}

spdx: Any = get_spdx_licensing()


def permits(expressed: Any, permitted: set[str]) -> bool:
    """Whether one of its alternatives has permitted licences alone."""
    if isinstance(expressed, spdx.OR):
        return any(permits(it, permitted) for it in expressed.args)
    if isinstance(expressed, spdx.AND):
        return all(permits(it, permitted) for it in expressed.args)
    return str(expressed) in permitted


@pytest.fixture(params=ARTEFACTS, ids=lambda it: it.name, scope="module")
def artefact(request: pytest.FixtureRequest) -> Artefact:
    return request.param


@pytest.fixture(scope="module")
def packages(artefact: Artefact) -> list[Package]:
    return artefact.find_packages()


def test_each_package_has_a_licence_text(packages: list[Package]) -> None:
    assert packages
    # The shortest, of the BSD family, has 600 characters; a reference to other files is no text.
    without = [it.name for it in packages if max(map(len, it.texts), default=0) < 600]
    assert without == []


def test_each_licence_may_be_in_what_we_ship(packages: list[Package]) -> None:
    refused = [
        (it.name, it.licence)
        for it in packages
        if not permits(spdx.parse(it.licence), PERMITTED | {IN_TRAY.get(it.name, "MIT")})
    ]
    assert refused == []


def test_each_package_is_locked_in_this_version(packages: list[Package]) -> None:
    locks = (wheels.LOCK, wheels.SITE_LOCK)
    lock = {("pypi", name, version) for it in locks for name, version, _ in wheels.read_lock(it)}
    lock |= {("cargo", it["name"], it["version"]) for it in tomllib.loads(crates.LOCK.read_text())["package"]}
    entries = json.loads(npm.LOCK.read_text())["packages"].items()
    lock |= {("npm", place.rpartition("node_modules/")[2], it.get("version")) for place, it in entries}
    assert {(it.kind, it.name, it.version) for it in packages} - lock == set()


def test_the_notices_have_each_name_and_each_text_once(packages: list[Package]) -> None:
    said = render_notices(packages)
    for package in packages:
        assert f"{package.name} {package.version} (" in said
    first = packages[0].texts[0]
    assert said.count(first) == 1


@pytest.mark.slow
def test_the_console_and_both_native_modules_are_covered() -> None:
    assert {"react", "recharts"} <= {
        it.name for it in find_artefact("culvert-controller").find_packages() if it.kind == "npm"
    }
    for name in ("culvert-client", "culvert-controller", "sluice"):
        assert "aws-lc-sys" in {it.name for it in find_artefact(name).find_packages() if it.kind == "cargo"}


@pytest.mark.parametrize("stated", ["", "proprietary", "MIT AND"])
def test_a_licence_that_spdx_does_not_know_is_refused(stated: str) -> None:
    with pytest.raises(LookupError, match="states no licence"):
        read_licence("some-package", [stated])


@pytest.mark.parametrize(
    "licence", ["GPL-2.0-only", "GPL-2.0-only AND MIT", "AGPL-3.0-only OR GPL-3.0-or-later"]
)
def test_a_copyleft_licence_is_not_permitted(licence: str) -> None:
    assert not permits(spdx.parse(licence), PERMITTED)
