"""Writes a Debian package (deb(5), version 2.0): an ar archive of two tar archives. The same input gives the same bytes.

debian-binary    2.0
control.tar      control, conffiles, maintainer scripts
data.tar         the files, owned by root
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import PurePosixPath

_MAGIC = b"!<arch>\n"


def write_package(
    control: str, scripts: Mapping[str, str], files: Mapping[str, bytes], modified_at: int
) -> bytes:
    """`scripts`: maintainer scripts by name. `files`: by path without the first slash. `modified_at`: in Unix time."""
    conffiles = "".join(f"/{name}\n" for name in files if name.startswith("etc/"))
    about = {"control": control.encode(), "conffiles": conffiles.encode()}
    members = {
        "debian-binary": b"2.0\n",
        "control.tar": _tar(
            about | {it: text.encode() for it, text in scripts.items()}, scripts, modified_at
        ),
        "data.tar": _tar(files, (), modified_at),
    }
    package = bytearray(_MAGIC)
    for name, content in members.items():
        package += f"{name:<16}{modified_at:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        package += content + b"\n" * (len(content) % 2)
    return bytes(package)


def _tar(files: Mapping[str, bytes], executable: Mapping[str, str] | tuple[()], modified_at: int) -> bytes:
    written = io.BytesIO()
    folders = {PurePosixPath(), *(folder for name in files for folder in PurePosixPath(name).parents)}
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for folder in sorted(folders):
            entry = tarfile.TarInfo("./" if folder == PurePosixPath() else f"./{folder}/")
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, modified_at
            archive.addfile(entry)
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"./{name}")
            entry.size, entry.mtime = len(content), modified_at
            entry.mode = 0o755 if name in executable else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()
