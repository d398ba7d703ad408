"""`make images`: the OCI images, from the Debian packages of `make deb` for Debian 12.

package ─────────────────────────────► /usr of the package ─┐
Debian 12 with what the package needs ─► files of that ─────┼─► root.tar ─► Containerfile ─► localhost/NAME:VERSION
ROOT/ of this folder ─────────────────► start of a container ┘

An image has the files of a package, and of what it depends on; no package tools, and no systemd, since the container's
engine supervises it. Two builds of one commit from the same packages have the same root.tar, bit for bit: names are in
order, times are those of the commit.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path
from typing import Any

from releases import DEBIAN_12, ROOT, make_root
from reproducible import read_commit_time
from sbom import render_image_sbom
from stage import PACKAGES, read_version

_HERE = Path(__file__).parent
_WORK = ROOT / "build/images"
_FIGURES = ROOT / "build/fleet.json"
_MIB = 1 << 20
# The same in each image, for a volume's owner; a number, so that Kubernetes can tell that it is not root.
_USER = 10001
# Their tasks are the container engine's, or those of an installation that never changes.
_LEFT_OUT = frozenset(
    {"systemd", "init-system-helpers", "dpkg", "debconf", "debianutils", "cdebconf", "libpam0g"}
)
_UNUSED = re.compile(
    r"/usr/share/(man|doc(?!/[^/]+/copyright)|info|lintian|locale|bash-completion|zsh|fish|menu|pixmaps)(/|$)"
)
_USR = ("bin", "lib", "lib64", "sbin")


@dataclass(frozen=True, slots=True)
class Image:
    """`beside`: packages of Debian that the package does not name. `state`: directories of `_USER`, mode 0700."""

    name: str
    beside: tuple[str, ...]
    users: tuple[str, ...] = ()
    state: tuple[str, ...] = ()

    @property
    def reference(self) -> str:
        return f"localhost/{self.name}:{read_version()}"


# Files of base-files name the release; tzdata has the hours of policies; a shell starts the embedded Postgres.
_COMMON = ("base-files", "ca-certificates", "tzdata", "dash")
IMAGES = (
    Image("culvert-controller", _COMMON, ("culvert-controller",), ("var/lib/culvert-controller",)),
    Image(
        "culvert-gateway", ("base-files", "dash", "util-linux", "coreutils", "sed", "nftables"), ("sluice",)
    ),
    Image("culvert-client", (*_COMMON, "iproute2")),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--image", action="append", choices=[it.name for it in IMAGES])
    parser.add_argument(
        "--archives", type=Path, help="a folder that each image is written to, too, with its SBOM and digest"
    )
    chosen = parser.parse_args()
    images = [it for it in IMAGES if not chosen.image or it.name in chosen.image]
    try:
        for image in images:
            print(f"{build(image)}  {image.reference}", flush=True)
        if chosen.archives is not None:
            chosen.archives.mkdir(parents=True, exist_ok=True)
            digests = [f"{archive(it, chosen.archives)}\n" for it in images]
            (chosen.archives / "digests.txt").write_text("".join(digests))
    except (subprocess.CalledProcessError, LookupError, OSError) as error:
        sys.exit(f"the image was not built: {error}\n{getattr(error, 'stderr', None) or ''}")


def build(image: Image) -> str:
    """The image's id. Writes its SBOM and its size. Raises CalledProcessError, LookupError, OSError."""
    package = find_package(image.name)
    needed = [_first(it) for it in _field(package, "Depends").split(",")]
    wanted = sorted({it for it in (*needed, *image.beside) if it not in _LEFT_OUT})
    debian = make_root(DEBIAN_12, f"image-{image.name}", wanted)
    installed = _read_installed(debian)
    kept = _close(wanted, installed)
    root = _WORK / image.name / "root"
    shutil.rmtree(root.parent, ignore_errors=True)
    root.mkdir(parents=True)
    for name in _USR:
        (root / name).symlink_to(f"usr/{name}")
        (root / "usr" / name).mkdir(parents=True)
    _copy(debian, root, _list_files(debian, kept))
    subprocess.run(["dpkg-deb", "--extract", str(package), str(root)], check=True)
    _finish(debian, root, image, {name: installed[name] for name in kept})
    if (_HERE / image.name).is_dir():
        shutil.copytree(_HERE / image.name, root, dirs_exist_ok=True)
    _pack(root, root.with_suffix(".tar"), image)
    shutil.rmtree(root)
    _write_sbom(image, package, [installed[name] for name in kept])
    identity = _build_image(image, root.parent)
    size = json.loads(_output("podman", "image", "inspect", identity))[0]["Size"]
    figures: dict[str, Any] = json.loads(_FIGURES.read_text()) if _FIGURES.exists() else {}
    figures.setdefault("image_mib", {})[image.name] = round(size / _MIB, 1)
    _FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    return identity


def archive(image: Image, folder: Path) -> str:
    """NAME:VERSION@DIGEST, as a registry would have it. Raises CalledProcessError, OSError.

    Writes the image of podman's store as an OCI archive, the same one for the same image, and its SBOM.
    """
    named = image.reference.removeprefix("localhost/")
    layout = _WORK / image.name / "oci"
    shutil.rmtree(layout, ignore_errors=True)
    subprocess.run(["buildah", "push", "--quiet", image.reference, f"oci:{layout}:{named}"], check=True)
    [manifest] = json.loads((layout / "index.json").read_text())["manifests"]
    architecture = _output("dpkg", "--print-architecture").strip()
    _pack(layout, folder / f"{named.replace(':', '_')}_{architecture}.oci.tar", image)
    shutil.rmtree(layout)
    shutil.copyfile(_sbom_of(image), folder / _sbom_of(image).name)
    return f"{named}@{manifest['digest']}"


def find_package(name: str) -> Path:
    """Raises LookupError."""
    found = sorted(PACKAGES.glob(f"{name}_*~{DEBIAN_12.tag}_*.deb"))
    if len(found) != 1:
        raise LookupError(
            f"make deb RELEASES={DEBIAN_12.tag} builds the one package {name}: found are {found}"
        )
    return found[0]


def _field(package: Path, name: str) -> str:
    return _output("dpkg-deb", "--field", str(package), name).strip()


def _first(dependency: str) -> str:
    """The package's name in `NAME:ARCHITECTURE (>= VERSION) | OTHER`."""
    return re.split(r"[\s:(|]", dependency.strip(), maxsplit=1)[0]


def _read_installed(root: Path) -> dict[str, dict[str, str]]:
    """The fields of each package in a root, by name; also by the names that it provides."""
    found: dict[str, dict[str, str]] = {}
    virtual: dict[str, dict[str, str]] = {}
    for paragraph in (root / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(Parser().parsestr(paragraph).items())
        if fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = fields
            for provided in filter(None, fields.get("Provides", "").split(",")):
                virtual[_first(provided)] = fields
    return virtual | found


def _close(wanted: list[str], installed: dict[str, dict[str, str]]) -> list[str]:
    """The packages and all that they depend on, in order, without `_LEFT_OUT`. Raises LookupError."""
    kept: set[str] = set()
    ahead = list(wanted)
    while ahead:
        fields = installed[ahead.pop()]
        name = fields["Package"]
        if name in kept or name in _LEFT_OUT:
            continue
        kept.add(name)
        for dependency in f"{fields.get('Pre-Depends', '')},{fields.get('Depends', '')}".split(","):
            if not dependency.strip():
                continue
            choices = [_first(it) for it in dependency.split("|")]
            ahead.append(next(it for it in choices if it in installed))
    return sorted(kept)


def _list_files(root: Path, packages: list[str]) -> Iterator[str]:
    information = root / "var/lib/dpkg/info"
    for package in packages:
        [listed] = *information.glob(f"{package}.list"), *information.glob(f"{package}:*.list")
        for name in listed.read_text().splitlines():
            if name != "/." and not _UNUSED.match(name) and name.strip("/") not in _USR:
                yield name.strip("/")


def _copy(source: Path, target: Path, names: Iterator[str]) -> None:
    """Names may go through the links of /bin and /lib, which both sides have."""
    there = "".join(
        f"{it}\n" for it in sorted(set(names)) if (source / it).is_symlink() or (source / it).exists()
    )
    read = ["tar", "-C", str(source), "--create", "--no-recursion", "--files-from=-"]
    packed = subprocess.run(read, input=there.encode(), check=True, capture_output=True).stdout
    write = ["tar", "-C", str(target), "--extract", "--keep-directory-symlink"]
    subprocess.run(write, input=packed, check=True)


def _finish(debian: Path, root: Path, image: Image, packages: dict[str, dict[str, str]]) -> None:
    authorities = "etc/ssl/certs/ca-certificates.crt"
    if (debian / authorities).exists():
        (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
        shutil.copy(debian / authorities, root / authorities)
    users = [("root", 0, "/root"), *((name, _USER, "/") for name in image.users), ("nobody", 65534, "/")]
    (root / "etc/passwd").write_text(
        "".join(f"{name}:x:{it}:{it}::{home}:/usr/sbin/nologin\n" for name, it, home in users)
    )
    (root / "etc/group").write_text("".join(f"{name}:x:{it}:\n" for name, it, _ in users))
    # Scanners look for known faults by this list.
    status = root / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text(
        "\n".join("".join(f"{name}: {value}\n" for name, value in it.items()) for it in packages.values())
    )
    for name in ("dev", "proc", "sys", "run", "tmp", "etc/culvert", *image.state):
        (root / name).mkdir(parents=True, exist_ok=True)
    subprocess.run(["ldconfig", "-r", str(root)], check=True)
    # Its times and inodes would differ from build to build; it is of use to ldconfig alone.
    (root / "var/cache/ldconfig/aux-cache").unlink(missing_ok=True)


def _pack(root: Path, target: Path, image: Image) -> None:
    when = read_commit_time()

    def settle(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = when
        member.uname = member.gname = ""
        owned = member.name in image.state
        member.uid = member.gid = _USER if owned else 0
        # No program of an image gives rights by itself.
        member.mode = 0o1777 if member.name == "tmp" else 0o700 if owned else member.mode & 0o755
        return member

    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            archive.add(path, str(path.relative_to(root)), recursive=False, filter=settle)


def _write_sbom(image: Image, package: Path, others: list[dict[str, str]]) -> None:
    compressed = f"./usr/share/doc/{image.name}/sbom.cdx.json.gz"
    read = f'dpkg-deb --fsys-tarfile "{package}" | tar --extract --to-stdout "{compressed}" | gunzip'
    document = json.loads(_output("sh", "-ec", read))
    _sbom_of(image).write_text(render_image_sbom(document, others))


def _sbom_of(image: Image) -> Path:
    return _WORK / f"{image.name}.cdx.json"


def _build_image(image: Image, context: Path) -> str:
    command = ["buildah", "build", "--quiet", "--layers=false", f"--timestamp={read_commit_time()}"]
    command += [f"--tag={image.reference}", f"--file={_HERE / f'{image.name}.Containerfile'}"]
    labels = {
        "version": read_version(),
        "revision": _output("git", "-C", str(ROOT), "rev-parse", "HEAD").strip(),
    }
    command += [f"--label=org.opencontainers.image.{name}={value}" for name, value in labels.items()]
    return _output(*command, str(context)).strip()


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
