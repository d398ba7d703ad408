"""Code for Linux alone stands in its folder; .importlinter keeps the libraries there, and this the rest."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from json import loads
from pathlib import Path

import culvert_client
import pytest
from culvert_client.cli.failure import EXIT_FAULT
from culvert_client.platform import UnsupportedSystemError, command_line_platform, daemon_platform

CLIENT = Path(culvert_client.__file__).parent
LINUX = CLIENT / "platform/linux"
ELSEWHERE = sorted(it for it in CLIENT.rglob("*.py") if not it.is_relative_to(LINUX))
NAMES = {
    "AF_NETLINK",
    "AF_PACKET",
    "CLOCK_BOOTTIME",
    "IPV6_DONTFRAG",
    "SO_PEERCRED",
    "freedesktop_os_release",
    "memfd_create",
    "uname",
}
PATHS = ("/dev/", "/etc/", "/proc/", "/run/", "/sys/", "/var/")


@pytest.mark.parametrize("file", ELSEWHERE, ids=lambda file: str(file.relative_to(CLIENT)))
def test_no_other_part_names_what_only_linux_has(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute):
            assert node.attr not in NAMES
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not node.value.startswith(PATHS)


def test_a_system_without_a_folder_is_refused_by_its_name() -> None:
    for choose in (daemon_platform, command_line_platform):
        with pytest.raises(UnsupportedSystemError, match="win32"):
            choose("win32")


HIDE = "import sys; sys.modules.update(dict.fromkeys(('fcntl', 'grp', 'pwd', 'resource', 'termios')))"


def test_the_daemon_is_imported_where_unix_modules_are_missing() -> None:
    """So that it can refuse the system by its name (alivecontext/alive issue 80)."""
    subprocess.run([sys.executable, "-c", f"{HIDE}; import culvert_client.daemon"], check=True)


@pytest.mark.parametrize("json", [False, True])
def test_the_command_line_refuses_another_system_in_its_words(json: bool) -> None:
    start = "sys.platform = 'darwin'; from culvert_client.cli import app; app()"
    arguments = ["status", "--json"] if json else ["status"]
    ended = subprocess.run(
        [sys.executable, "-c", f"{HIDE}; {start}", *arguments],
        env=os.environ | {"LC_ALL": "de_DE.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == EXIT_FAULT, ended.stderr
    assert "Traceback" not in ended.stderr
    said = loads(ended.stdout)["error"] if json else {"message": ended.stderr, "remedy": ended.stderr}
    assert "läuft auf Linux und nicht auf darwin" in said["message"]
    assert "docs/platforms.md" in said["remedy"]
