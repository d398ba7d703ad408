"""The manifests of all parts state one version, and the licence that REUSE.toml gives their files."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _list_tracked(name: str) -> list[Path]:
    listed = ["git", "ls-files", name, f"*/{name}"]
    found = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [ROOT / it for it in found]


def _read_licence(manifest: Path) -> str:
    if manifest.suffix == ".json":
        return json.loads(manifest.read_text())["license"]
    read = tomllib.loads(manifest.read_text())
    stated = (read.get("project") or read.get("package") or read["workspace"]["package"])["license"]
    return stated if isinstance(stated, str) else _read_licence(ROOT / "Cargo.toml")


def test_all_parts_have_one_version() -> None:
    done = subprocess.run([ROOT / "deploy/version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", ["1.2", "1.2.3-rc.1", "01.2.3", "latest"])
def test_a_version_that_some_tool_orders_otherwise_is_refused(version: str) -> None:
    done = subprocess.run([ROOT / "deploy/version", version], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "three numbers" in done.stderr


def test_manifests_and_reuse_toml_state_the_same_licence() -> None:
    annotations = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"]
    for manifest in [
        it for name in ("pyproject.toml", "Cargo.toml", "package.json") for it in _list_tracked(name)
    ]:
        path = str(manifest.relative_to(ROOT))
        # The last annotation that matches counts (REUSE 3.3).
        given = [it for it in annotations if path.startswith(it["path"].removesuffix("**"))][-1]
        assert _read_licence(manifest) == given["SPDX-License-Identifier"], path


def test_the_mark_is_the_same_everywhere() -> None:
    mark = (ROOT / "docs/images/mark.svg").read_bytes()
    for copy in ("service/console/public/icon.svg", "tray-ui/culvert_tray/icons/mark.svg"):
        assert (ROOT / copy).read_bytes() == mark, copy
