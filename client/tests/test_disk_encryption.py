"""The encryption of the devices under /, as sysfs shows it down to the last layer."""

from __future__ import annotations

from pathlib import Path

import pytest
from culvert_client.platform.linux.disk_encryption import root_is_encrypted

Layers = dict[str, tuple[str, ...]]

PLAIN: Layers = {"sda": ()}
LUKS: Layers = {"dm-0": ("sda",), "sda": ()}
LVM_ON_LUKS: Layers = {"dm-1": ("dm-0",), "dm-0": ("sda",), "sda": ()}
HALF: Layers = {"dm-1": ("dm-0", "sdb"), "dm-0": ("sda",), "sda": (), "sdb": ()}


def machine(directory: Path, layers: Layers, top: str, mount: str = "ext4 /dev/root") -> tuple[Path, Path]:
    """Mountinfo and sysfs; dm-0 is a dm-crypt mapping, other mappings are not."""
    sys, blocks = directory / "sys", directory / "sys" / "devices"
    for name in layers:
        (blocks / name / "slaves").mkdir(parents=True)
        if name.startswith("dm-"):
            (blocks / name / "dm").mkdir()
            kind = "CRYPT-LUKS2-0123-root" if name == "dm-0" else "LVM-0123"
            (blocks / name / "dm" / "uuid").write_text(f"{kind}\n")
    for name, slaves in layers.items():
        for slave in slaves:
            (blocks / name / "slaves" / slave).symlink_to(blocks / slave)
    (sys / "dev" / "block").mkdir(parents=True)
    (sys / "dev" / "block" / "254:1").symlink_to(blocks / top)
    mountinfo = directory / "mountinfo"
    mountinfo.write_text(
        f"1 0 0:2 / / rw shared:1 - rootfs rootfs rw\n22 1 254:1 / / rw,relatime shared:2 - {mount} rw\n"
        "23 22 0:5 / /home rw - tmpfs tmpfs rw\n"
    )
    return mountinfo, sys


@pytest.mark.parametrize(
    ("layers", "top", "verdict"),
    [
        (PLAIN, "sda", False),
        (LUKS, "dm-0", True),
        (LUKS, "sda", False),
        (LVM_ON_LUKS, "dm-1", True),
        (HALF, "dm-1", False),
    ],
)
def test_root_is_encrypted_if_all_its_devices_are(
    tmp_path: Path, layers: Layers, top: str, verdict: bool
) -> None:
    assert root_is_encrypted(*machine(tmp_path, layers, top)) is verdict


def test_a_partition_is_what_its_disk_is(tmp_path: Path) -> None:
    mountinfo, sys = machine(tmp_path, PLAIN, "sda")
    partition = sys / "devices" / "sda" / "sda1"
    partition.mkdir()
    (partition / "partition").write_text("1\n")
    number = sys / "dev" / "block" / "254:1"
    number.unlink()
    number.symlink_to(partition)
    assert root_is_encrypted(mountinfo, sys) is False


def test_btrfs_is_all_of_its_devices(tmp_path: Path) -> None:
    mountinfo, sys = machine(tmp_path, HALF, "dm-0", "btrfs /dev/dm-0")
    devices = sys / "fs" / "btrfs" / "0123" / "devices"
    devices.mkdir(parents=True)
    (devices / "dm-0").symlink_to(sys / "devices" / "dm-0")
    assert root_is_encrypted(mountinfo, sys) is True
    (devices / "sdb").symlink_to(sys / "devices" / "sdb")
    assert root_is_encrypted(mountinfo, sys) is False


def test_unreadable_layers_give_no_verdict_on_encryption(tmp_path: Path) -> None:
    mountinfo, sys = machine(tmp_path, PLAIN, "sda", "overlay overlay")
    (sys / "dev" / "block" / "254:1").unlink()
    assert root_is_encrypted(mountinfo, sys) is None
    assert root_is_encrypted(tmp_path / "absent", sys) is None
