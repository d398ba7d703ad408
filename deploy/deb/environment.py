"""The Python environment of a package, over the Python of its release.

requirements.lock ─► wheels with hashes ─┐
wheels of our own parts ─────────────────┼─► PREFIX, a virtual environment
native modules ──────────────────────────┘

It is the package's own, because the release's gRPC, cryptography and PyQt6 are years older than what Culvert is tested
with, and nothing that a person installs with pip or apt may change what a daemon loads. Native modules and our own wheels
are built once for all releases.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from releases import ROOT
from reproducible import cargo_build
from stage import Stage

_DEPENDENCIES = ROOT / "deploy/dependencies"
_WHEELS = ROOT / "build/deb/wheels"
_UV = ROOT / "build/uv/bin/uv"
_NOTES = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json")


_NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")


@dataclass(frozen=True, slots=True)
class NativeModule:
    """`package`: the folder of the Python package that loads it, under the name `_native`."""

    crate: str
    package: Path
    features: str


IPSEC = NativeModule(
    "culvert_ipsec",
    ROOT / "ipsec/culvert_ipsec/python/culvert_ipsec",
    "culvert_ipsec/python,pyo3/extension-module",
)
AGENT_SERVER = NativeModule(
    "culvert_agent_server",
    ROOT / "service/agent_server/python/culvert_agent_server",
    "pyo3/extension-module",
)


def find_site_packages(stage: Stage, prefix: Path) -> Path:
    return stage.inside(prefix) / f"lib/python{stage.release.python}/site-packages"


def install(stage: Stage, prefix: Path, parts: Sequence[str], native: Sequence[NativeModule]) -> Path:
    """Fill the package's site-packages. `parts`: folders of ours. Raises CalledProcessError, LookupError, OSError."""
    site_packages = find_site_packages(stage, prefix)
    lock = stage.folder / "requirements.lock"
    lock.write_text(_output(sys.executable, str(_DEPENDENCIES / "artefacts.py"), stage.name))
    # Files that are shared with uv's cache would get the package's times there too, and in each environment that has them:
    # Python compiles a library again at each start when its bytecode has another time.
    command = (
        str(_UV),
        "pip",
        "install",
        "-q",
        "--link-mode",
        "copy",
        "--python",
        "/usr/bin/python3",
        "--no-deps",
    )
    command += ("--python-version", stage.release.python, "--target", str(site_packages))
    _run(*command, "--only-binary", ":all:", "--require-hashes", "-r", str(lock))
    _run(*command, "--no-index", *(str(_build_wheel(part)) for part in parts))
    for module in native:
        target = site_packages / module.package.name
        shutil.copytree(module.package, target, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        library = _build_native(module)
        shutil.copyfile(library, target / "_native.abi3.so")
        _run("strip", "--strip-unneeded", str(target / "_native.abi3.so"))
    for unused in ("bin", "include", "share"):
        shutil.rmtree(site_packages / unused, ignore_errors=True)
    # The installer's own notes name this folder.
    notes = [found for name in _NOTES for found in site_packages.glob(f"*.dist-info/{name}")]
    for unused in [site_packages / ".lock", *notes, *site_packages.rglob("*.pyi")]:
        unused.unlink()
    return site_packages


def compile_modules(stage: Stage, site_packages: Path) -> None:
    """Compile every module now: at run time nothing is written, so a removal leaves nothing.

    The Python that will load the modules compiles them, with sets in one order.
    """
    place = site_packages.relative_to(stage.folder)
    command = ("env", "PYTHONHASHSEED=0", "python3", "-m", "compileall", "-q", "-j", "1")
    stage.run_inside(*command, "--invalidation-mode", "unchecked-hash", "-s", "root", "-p", "/", str(place))


def add_interpreter(stage: Stage, prefix: Path) -> None:
    place = prefix.relative_to("/")
    stage.text(f"{place}/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    (stage.inside(prefix) / "bin").mkdir()
    (stage.inside(prefix) / "bin/python").symlink_to(f"../../../bin/python{stage.release.python}")


def add_programs(stage: Stage, prefix: Path, programs: Mapping[str, str]) -> None:
    """`programs`: MODULE:FUNCTION for each name."""
    for name, entry in programs.items():
        module, _, function = entry.partition(":")
        # -I: neither the caller's environment nor the directory that they are in has a say in what is loaded. What is
        # imported stays: without collections meanwhile, the start takes a tenth less.
        program = (
            f"#!{prefix}/bin/python -I\nimport gc\nimport sys\n\ngc.disable()\nfrom {module} import {function}\n\n"
            f"gc.enable()\nsys.exit({function}())\n"
        )
        stage.text(f"usr/bin/{name}", program, executable=True)


def find_libraries(site_packages: Path) -> list[Path]:
    return sorted(it for it in site_packages.rglob("*.so*") if it.is_file())


def find_linked(files: list[Path], libraries: Path) -> set[str]:
    """Names of the libraries in that folder with which the files are linked, also through each other."""
    found: set[str] = set()
    ahead = files
    while ahead:
        said = subprocess.run(
            ["readelf", "--dynamic", ahead.pop()], capture_output=True, text=True, check=True
        ).stdout
        fresh = {it for it in _NEEDED.findall(said) if (libraries / it).exists()} - found
        found |= fresh
        ahead += [libraries / it for it in fresh]
    return found


@functools.cache
def _build_wheel(part: str) -> Path:
    folder = _WHEELS / part
    shutil.rmtree(folder, ignore_errors=True)
    _run(str(_UV), "build", "-q", "--wheel", "--out-dir", str(folder), str(ROOT / part))
    [wheel] = folder.glob("*.whl")
    return wheel


@functools.cache
def _build_native(module: NativeModule) -> Path:
    return cargo_build("-p", module.crate, "--features", module.features) / f"lib{module.crate}.so"


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
