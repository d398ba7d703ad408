"""`make deb`: build/culvert-client_VERSION_ARCH.deb, daemon, command line and tray, for the Debian that it is built on.

requirements.lock ─► wheels with hashes ─┐
proto, client, tray-ui ─► wheels ────────┼─► /usr/lib/culvert, a virtual environment over Debian's Python
culvert_ipsec ─► native module ──────────┘   /usr/bin, unit, man pages, completion, desktop files: deploy/deb/files

The environment is the package's own, because Debian's PyQt6, gRPC and cryptography are years older than what Culvert is
tested with, and nothing that a person installs with pip or apt may change what a daemon with root's rights loads.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from qt import prune
from reproducible import cargo_build, pack

ROOT = Path(__file__).resolve().parents[2]
FILES = Path(__file__).parent / "files"
DEPENDENCIES = ROOT / "deploy/dependencies"
WORK = ROOT / "build/deb"
STAGE = WORK / "root"
UV = ROOT / "build/uv/bin/uv"
# Not the one that Culvert is developed with: the package runs on Debian's.
PYTHON = Path("/usr/bin/python3")
NAME = "culvert-client"
PREFIX = Path("/usr/lib/culvert")
WHEELS = ("proto", "client", "tray-ui")
PROGRAMS = {
    "culvert": "culvert_client.cli:app",
    "culvertd": "culvert_client.daemon:main",
    "culvert-tray": "culvert_tray.app:main",
}
# The folders in which each shell looks for completion.
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/culvert",
    "zsh": "usr/share/zsh/vendor-completions/_culvert",
    "fish": "usr/share/fish/vendor_completions.d/culvert.fish",
}
# The destination of each file.
PLACES = {
    ROOT / "deploy/systemd/culvertd.service": "lib/systemd/system/culvertd.service",
    FILES / "culvertd.toml": "etc/culvert/culvertd.toml",
    FILES / "org.culvert.Tray.desktop": "usr/share/applications/org.culvert.Tray.desktop",
    FILES / "org.culvert.Tray.service": "usr/share/dbus-1/services/org.culvert.Tray.service",
    FILES / "autostart.desktop": "etc/xdg/autostart/culvert-tray.desktop",
    FILES / "culvert.svg": "usr/share/icons/hicolor/scalable/apps/culvert.svg",
    FILES / "lintian-overrides": f"usr/share/lintian/overrides/{NAME}",
}
SCRIPTS = ("postinst", "prerm", "postrm")
NOTES = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json")
CONFIGURATION = [it for it in PLACES.values() if it.startswith("etc/")]


def build() -> Path:
    """The package's path. Raises CalledProcessError, LookupError, OSError."""
    shutil.rmtree(WORK, ignore_errors=True)
    STAGE.mkdir(parents=True)
    minor = _output(str(PYTHON), "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    site_packages = _inside(PREFIX) / f"lib/python{minor}/site-packages"
    _environment(minor, site_packages)
    _programs(site_packages)
    for source, place in PLACES.items():
        _copy(source, STAGE / place)
    for manual in (ROOT / "client/man", ROOT / "tray-ui/man"):
        for page in manual.rglob("*.[18]"):
            language = page.parent.relative_to(manual)
            place = STAGE / "usr/share/man" / language / f"man{page.suffix[1:]}/{page.name}.gz"
            _compress(place, page.read_bytes())
    _documents()
    return _package(minor, site_packages)


def _environment(minor: str, site_packages: Path) -> None:
    lock = WORK / "requirements.lock"
    lock.write_text(_output(sys.executable, str(DEPENDENCIES / "artefacts.py"), NAME) + "\n")
    wheels = WORK / "wheels"
    for part in WHEELS:
        _run(str(UV), "build", "-q", "--wheel", "--out-dir", str(wheels), str(ROOT / part))
    install = (str(UV), "pip", "install", "-q", "--python", str(PYTHON), "--target", str(site_packages))
    _run(*install, "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(lock))
    _run(*install, "--no-deps", "--no-index", *map(str, sorted(wheels.glob("*.whl"))))
    ipsec = site_packages / "culvert_ipsec"
    built = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "ipsec/culvert_ipsec/python/culvert_ipsec", ipsec, ignore=built)
    native = cargo_build("-p", "culvert_ipsec", "--features", "culvert_ipsec/python,pyo3/extension-module")
    shutil.copyfile(native / "libculvert_ipsec.so", ipsec / "_native.abi3.so")
    _run("strip", "--strip-unneeded", str(ipsec / "_native.abi3.so"))
    prune(site_packages)
    for unused in ("bin", "share"):
        shutil.rmtree(site_packages / unused, ignore_errors=True)
    # The installer's own notes name this folder.
    notes = [found for name in NOTES for found in site_packages.glob(f"*.dist-info/{name}")]
    for unused in [site_packages / ".lock", *notes, *site_packages.rglob("*.pyi")]:
        unused.unlink()
    # Known at build time and never written at run time: a removal leaves nothing behind, and a start compiles nothing.
    # By the Python that will load it, and with sets in one order.
    compiled = (str(PYTHON), "-m", "compileall", "-q", "-j", "1", "--invalidation-mode", "unchecked-hash")
    shown = ("-s", str(STAGE), "-p", "/", str(site_packages))
    _run(*compiled, *shown, more={"PYTHONHASHSEED": "0"})
    _text(_inside(PREFIX) / "pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    (_inside(PREFIX) / "bin").mkdir()
    (_inside(PREFIX) / "bin/python").symlink_to(f"../../../bin/python{minor}")


def _programs(site_packages: Path) -> None:
    for name, entry in PROGRAMS.items():
        module, _, function = entry.partition(":")
        # -I: neither the caller's environment nor the directory that they are in has a say in what is loaded.
        program = (
            f"#!{PREFIX}/bin/python -I\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        )
        _text(STAGE / "usr/bin" / name, program)
    for shell, place in COMPLETIONS.items():
        asked = {"_CULVERT_COMPLETE": f"source_{shell}", "PYTHONPATH": str(site_packages)}
        program = "from culvert_client.cli import app; app(prog_name='culvert')"
        said = subprocess.run(
            [str(PYTHON), "-c", program], env=os.environ | asked, text=True, capture_output=True, check=True
        )
        _text(STAGE / place, said.stdout)


def _documents() -> None:
    documents = STAGE / "usr/share/doc" / NAME
    notices = _output(sys.executable, str(DEPENDENCIES / "notices.py"), NAME)
    _text(documents / "copyright", f"{(FILES / 'copyright').read_text()}{notices}\n")
    changelog = f"{NAME} ({_version()}) stable; urgency=medium\n\n  * See the project's history.\n\n"
    when = _output("git", "-C", str(ROOT), "log", "-1", "--format=%cD")
    _compress(documents / "changelog.gz", f"{changelog} -- {_maintainer()}  {when}\n".encode())


def _package(minor: str, site_packages: Path) -> Path:
    architecture = _output("dpkg", "--print-architecture")
    control = STAGE / "DEBIAN"
    installed = sum(it.lstat().st_size for it in STAGE.rglob("*") if it.is_file()) // 1024
    fields = {
        "version": _version(),
        "architecture": architecture,
        "installed": str(installed),
        "python": f"python{minor}",
        **_link_dependencies(site_packages),
    }
    control.mkdir()
    _text(control / "control", _fill((FILES / "control").read_text(), fields))
    _text(control / "conffiles", "".join(f"/{it}\n" for it in CONFIGURATION))
    for script in SCRIPTS:
        _copy(FILES / script, control / script)
    files = sorted(it for it in STAGE.rglob("*") if it.is_file() and not it.is_symlink())
    sums = [
        f"{hashlib.md5(it.read_bytes(), usedforsecurity=False).hexdigest()}  {it.relative_to(STAGE)}\n"
        for it in files
        if control not in it.parents
    ]
    _text(control / "md5sums", "".join(sums))
    _permissions()
    package = ROOT / f"build/{NAME}_{_version()}_{architecture}.deb"
    pack(STAGE, package)
    return package


def _link_dependencies(site_packages: Path) -> dict[str, str]:
    """Debian's packages of the libraries that are linked with and not in the package itself: Depends and Recommends."""
    _text(WORK / "debian/control", f"Source: {NAME}\n\nPackage: {NAME}\nArchitecture: any\n")
    libraries = sorted(it for it in site_packages.rglob("*.so*") if it.is_file())
    # The theme is of use only with GTK's settings.
    optional = [it for it in libraries if it.name == "libqgtk3.so"]
    command = ["dpkg-shlibdeps", "-O", "--ignore-missing-info"]
    command += [f"-l{it}" for it in sorted({it.parent for it in libraries})]
    command += [f"-e{it}" for it in libraries if it not in optional]
    command += ["-dRecommends", *(f"-e{it}" for it in optional)]
    said = subprocess.run(command, cwd=WORK, text=True, capture_output=True, check=True)
    found = dict(line.removeprefix("shlibs:").split("=", 1) for line in said.stdout.splitlines())
    return {"depends": found["Depends"], "recommends": found["Recommends"]}


def _permissions() -> None:
    scripts = [*(STAGE / "usr/bin").iterdir(), *(STAGE / "DEBIAN" / it for it in SCRIPTS)]
    for entry in STAGE.rglob("*"):
        if not entry.is_symlink():
            entry.chmod(0o755 if entry.is_dir() or entry in scripts else 0o644)


def _version() -> str:
    return tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]["version"]


def _maintainer() -> str:
    found = re.search(r"^Maintainer: (.*)$", (FILES / "control").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def _fill(template: str, fields: Mapping[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda found: fields[found[1]], template)


def _inside(path: Path) -> Path:
    return STAGE / path.relative_to("/")


def _copy(source: Path, target: Path) -> None:
    _text(target, source.read_text())


def _text(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def _compress(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(content, mtime=0))


def _run(*command: str, more: Mapping[str, str] = {}) -> None:
    subprocess.run(command, check=True, env=os.environ | more)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    try:
        print(build().relative_to(ROOT))
    except (subprocess.CalledProcessError, LookupError, OSError) as error:
        sys.exit(f"the package was not built: {error}\n{getattr(error, 'stderr', None) or ''}")
