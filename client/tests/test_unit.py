"""culvertd's systemd unit."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from culvert_client.config import command_line
from culvert_client.platform.linux.paths import PATHS

UNIT = Path(__file__).parents[2] / "deploy/systemd/culvertd.service"
# systemd's own scale; 10 is no protection at all.
MAX_EXPOSURE = 4.0


def _analyze(*arguments: str) -> str:
    ended = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr


def test_the_unit_is_sound_and_confined(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    # The program is not installed here.
    unit.write_text(UNIT.read_text().replace("/usr/bin/culvertd", "/bin/true"))
    assert "culvertd.service" not in _analyze("verify", "--man=no", str(unit))
    said = _analyze("security", "--offline=yes", str(unit))
    exposure = re.search(r"Overall exposure level for .*: ([0-9.]+)", said)
    assert exposure is not None, said
    assert float(exposure[1]) <= MAX_EXPOSURE


def test_a_start_that_failed_is_tried_again_for_ever() -> None:
    found = dict(re.findall(r"^(Restart\w*|StartLimitIntervalSec)=(.*)$", UNIT.read_text(), re.MULTILINE))
    # Status 2 is a bad configuration.
    assert (found["Restart"], found["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert found["StartLimitIntervalSec"] == "0"


def test_the_unit_starts_and_cleans_up_with_the_same_settings(tmp_path: Path) -> None:
    settings = tmp_path / "culvertd.toml"
    settings.write_text("udp_port = 4501\n")
    commands = re.findall(
        r"^Exec(?:Start|StopPost)=.*/usr/bin/culvertd ([^'\n]*)'?$", UNIT.read_text(), re.MULTILINE
    )
    parsed = [
        command_line(PATHS, it.replace("/etc/culvert/culvertd.toml", str(settings)).split())
        for it in commands
    ]
    assert [cleans for _, cleans in parsed] == [False, True]
    assert parsed[0][0] == parsed[1][0]
    assert parsed[0][0].udp_port == 4501


@pytest.mark.parametrize(
    ("code", "status", "cleans"), [("exited", "0", False), ("exited", "1", True), ("killed", "TERM", True)]
)
def test_the_unit_cleans_up_after_each_end_but_a_successful_one(code: str, status: str, cleans: bool) -> None:
    found = re.search(r"^ExecStopPost=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert found is not None
    # systemd.service(5), command lines.
    argv = shlex.split(found[1].replace("$$", "$").replace("/usr/bin/culvertd", "echo"))
    ended = subprocess.run(
        argv, env={"EXIT_CODE": code, "EXIT_STATUS": status}, capture_output=True, text=True, check=True
    )
    assert ("--cleanup" in ended.stdout) is cleans
