"""The systemd units."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from culvert_service.cli import app
from typer.testing import CliRunner

UNITS = Path(__file__).parents[2] / "deploy/systemd"
# systemd's exposure level runs from 0 to 10; 10 is no protection at all.
MAX_EXPOSURE = 2.0


def _analyze(*arguments: str) -> str:
    ended = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("name", ["culvert-controller", "culvert-dns-updater"])
def test_a_unit_is_sound_and_confined(name: str, tmp_path: Path) -> None:
    for file in UNITS.glob("culvert-*.service"):
        # The programs are not installed here, and systemd-analyze would report that.
        (tmp_path / file.name).write_text(re.sub(r"/usr/bin/culvert-[a-z-]+", "/bin/true", file.read_text()))
    unit = str(tmp_path / f"{name}.service")
    assert name not in _analyze("verify", "--man=no", unit)
    said = _analyze("security", "--offline=yes", unit)
    exposure = re.search(r"Overall exposure level for .*: ([0-9.]+)", said)
    assert exposure is not None, said
    assert float(exposure[1]) <= MAX_EXPOSURE


@pytest.mark.parametrize("unit", sorted(UNITS.glob("*.service")), ids=lambda unit: unit.stem)
def test_a_unit_keeps_keys_out_of_core_files_and_swap_space(unit: Path) -> None:
    lines = unit.read_text().splitlines()
    assert {"LimitCORE=0", "LimitMEMLOCK=infinity", "MemorySwapMax=0"} <= set(lines)


@pytest.mark.parametrize("unit", sorted(UNITS.glob("*.service")), ids=lambda unit: unit.stem)
def test_systemd_starts_a_part_again_for_as_long_as_it_fails(unit: Path) -> None:
    """systemd's start limit ends the restarts within seconds; a full disk or a taken port lasts longer."""
    lines = unit.read_text().splitlines()
    assert "Restart=on-failure" in lines
    assert "StartLimitIntervalSec=0" in lines
    [pause] = [int(line.partition("=")[2]) for line in lines if line.startswith("RestartSec=")]
    # A part that can never start leaves the processor to others.
    assert pause >= 2


def test_the_controllers_unit_starts_it_with_options_that_exist() -> None:
    text = (UNITS / "culvert-controller.service").read_text()
    command = re.findall(r"^ExecStart=\S+ (\S+) --config \S+$", text, re.MULTILINE)
    assert CliRunner().invoke(app, [*command, "--help"]).exit_code == 0
