"""A package's files before they are packed: build/deb/RELEASE/NAME/root, and the control files of deploy/deb/files/NAME."""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from releases import ROOT, Release, make_root, run_inside
from reproducible import pack

FILES = Path(__file__).parent / "files"
PACKAGES = ROOT / "build/packages"
_WORK = ROOT / "build/deb"
_DEPENDENCIES = ROOT / "deploy/dependencies"
_SCRIPTS = ("postinst", "prerm", "postrm")


class Stage:
    """`files`: the folder of its control files. Methods raise CalledProcessError, LookupError, OSError."""

    def __init__(self, name: str, release: Release) -> None:
        self.name = name
        self.release = release
        self.files = FILES / name.removeprefix("culvert-")
        self.version = f"{read_version()}+{count_commits()}~{release.tag}"
        self.folder = _WORK / release.tag / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.root = self.folder / "root"
        self.root.mkdir(parents=True)

    def inside(self, path: Path) -> Path:
        return self.root / path.relative_to("/")

    def text(self, place: str, text: str, *, executable: bool = False) -> None:
        self.content(place, text.encode(), executable=executable)

    def content(self, place: str, content: bytes, *, executable: bool = False) -> None:
        target = self.root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o755 if executable else 0o644)

    def copy(self, places: Mapping[Path, str]) -> None:
        """Texts, to their places."""
        for source, place in places.items():
            self.text(place, source.read_text())

    def compressed(self, place: str, content: bytes) -> None:
        self.content(place, gzip.compress(content, mtime=0))

    def manuals(self, folder: Path) -> None:
        for page in folder.rglob("*.[18]"):
            language = page.parent.relative_to(folder)
            place = f"usr/share/man/{language}/man{page.suffix[1:]}/{page.name}.gz"
            self.compressed(place, page.read_bytes())

    def run_inside(self, *command: str) -> str:
        """In the release's root, where this stage's folder is /mnt."""
        root = make_root(self.release, "build", self.release.build_packages)
        return run_inside(root, self.folder, *command)

    def documents(self, site_packages: Path | None = None) -> None:
        """Licences, changelog and SBOM, with the digests of the wheels in `site_packages`."""
        documents = f"usr/share/doc/{self.name}"
        notices = _run_here(sys.executable, str(_DEPENDENCIES / "notices.py"), self.name)
        self.text(f"{documents}/copyright", f"{(self.files / 'copyright').read_text()}{notices}\n")
        wheels = [] if site_packages is None else [str(site_packages)]
        sbom = _run_here(sys.executable, str(_DEPENDENCIES / "sbom.py"), self.name, *wheels)
        self.compressed(f"{documents}/sbom.cdx.json.gz", f"{sbom}\n".encode())
        when = _run_here("git", "-C", str(ROOT), "log", "-1", "--format=%cD")
        [maintainer] = re.findall(r"^Maintainer: (.*)$", (self.files / "control").read_text(), re.MULTILINE)
        entry = f"{self.name} ({self.version}) stable; urgency=medium\n\n  * See the project's history.\n\n"
        self.compressed(f"{documents}/changelog.gz", f"{entry} -- {maintainer}  {when}\n".encode())

    def find_link_dependencies(
        self, files: Sequence[Path], optional: Sequence[str] = (), run: Callable[..., str] | None = None
    ) -> dict[str, str]:
        """The release's packages of the libraries that the files are linked with and that are not among the files.

        `optional`: names of files whose libraries are only recommended. Returned are `depends` and `recommends`.
        """
        described = self.folder / "debian/control"
        described.parent.mkdir(exist_ok=True)
        described.write_text(f"Source: {self.name}\n\nPackage: {self.name}\nArchitecture: any\n")
        names = [it.relative_to(self.folder) for it in sorted(files)]
        command = ["dpkg-shlibdeps", "-O", "--ignore-missing-info"]
        command += [f"-l{it}" for it in sorted({it.parent for it in names})]
        command += [f"-e{it}" for it in names if it.name not in optional]
        command += ["-dRecommends", *(f"-e{it}" for it in names if it.name in optional)]
        said = (run or self.run_inside)(*command)
        found = dict(line.removeprefix("shlibs:").split("=", 1) for line in said.splitlines())
        return {"depends": found["Depends"], "recommends": found.get("Recommends", "")}

    def run_here(self, *command: str) -> str:
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def pack(self, fields: Mapping[str, str]) -> Path:
        """The package's path. `fields` fill control's @NAMES@."""
        control = self.root / "DEBIAN"
        listed = sorted(it for it in self.root.rglob("*") if it.is_file() and not it.is_symlink())
        architecture = _run_here("dpkg", "--print-architecture")
        fields = {
            "version": self.version,
            "architecture": architecture,
            "installed": str(sum(it.stat().st_size for it in listed) // 1024),
            **fields,
        }
        names = [str(it.relative_to(self.root)) for it in listed]
        sums = [hashlib.md5(it.read_bytes(), usedforsecurity=False).hexdigest() for it in listed]
        text = re.sub(r"@(\w+)@", lambda found: fields[found[1]], (self.files / "control").read_text())
        self.text("DEBIAN/control", text)
        self.text("DEBIAN/md5sums", "".join(f"{it}  {name}\n" for it, name in zip(sums, names, strict=True)))
        if conffiles := [name for name in names if name.startswith("etc/")]:
            self.text("DEBIAN/conffiles", "".join(f"/{it}\n" for it in conffiles))
        for script in _SCRIPTS:
            if (self.files / script).exists():
                self.text(f"DEBIAN/{script}", (self.files / script).read_text(), executable=True)
        for entry in [control, *self.root.rglob("*")]:
            if not entry.is_symlink():
                executable = entry.is_dir() or entry.stat().st_mode & 0o100
                entry.chmod(0o755 if executable else 0o644)
        PACKAGES.mkdir(parents=True, exist_ok=True)
        for old in PACKAGES.glob(f"{self.name}_*~{self.release.tag}_*.deb"):
            old.unlink()
        package = PACKAGES / f"{self.name}_{self.version}_{architecture}.deb"
        pack(self.root, package)
        return package


def read_version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def count_commits() -> str:
    """It grows from build to build of a version, and is the same for each build of a commit."""
    return _run_here("git", "-C", str(ROOT), "rev-list", "--count", "HEAD")


def _run_here(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
