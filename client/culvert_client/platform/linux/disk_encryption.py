"""Detects whether the root file system is encrypted: whether all of its devices are on dm-crypt, as sysfs shows.

Drives that encrypt themselves are not detected.

/ ─► its block devices ─► slaves of each (LVM, RAID, partitions of a mapping) ─► one whose dm/uuid begins with CRYPT-
"""

from __future__ import annotations

import os
from pathlib import Path

_CRYPT = "CRYPT-"
# The most layers of mappings.
_DEPTH_MAX = 16


def root_is_encrypted(
    mountinfo: Path = Path("/proc/self/mountinfo"), sys: Path = Path("/sys")
) -> bool | None:
    """None if unknown: for an overlay, a network file system, or a file system with its own volume manager."""
    try:
        devices = _devices_of_root(mountinfo.read_text(), sys)
        return all(_is_encrypted(device, _DEPTH_MAX) for device in devices) if devices else None
    except OSError:
        return None


def _devices_of_root(mountinfo: str, sys: Path) -> list[Path]:
    """proc_pid_mountinfo(5): the last mount at / hides earlier ones."""
    found: list[Path] = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, source, *_) = before.split(), after.split()
        if fields[4] == "/":
            found = _of_btrfs(source, sys) if kind == "btrfs" else _of_number(fields[2], sys)
    return found


def _of_number(number: str, sys: Path) -> list[Path]:
    device = sys / "dev" / "block" / number
    return [device.resolve()] if device.exists() else []


def _of_btrfs(source: str, sys: Path) -> list[Path]:
    """All devices of a btrfs file system, whose own device number belongs to no block device."""
    name = Path(os.path.realpath(source)).name
    for devices in (sys / "fs" / "btrfs").glob("*/devices"):
        members = [member.resolve() for member in devices.iterdir()]
        if name in {member.name for member in members}:
            return members
    return []


def _is_encrypted(device: Path, depth: int) -> bool:
    uuid = device / "dm" / "uuid"
    if uuid.exists() and uuid.read_text().startswith(_CRYPT):
        return True
    if not (device / "slaves").is_dir() and (device / "partition").exists():
        return depth > 0 and _is_encrypted(device.parent, depth - 1)
    slaves = [slave.resolve() for slave in (device / "slaves").iterdir()] if depth else []
    return bool(slaves) and all(_is_encrypted(slave, depth - 1) for slave in slaves)
