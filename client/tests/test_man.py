"""The manual pages, and completion in the shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main
from culvert_client.cli import app
from culvert_client.config import Config

MAN = Path(__file__).parents[1] / "man"


def _text(page: str) -> str:
    return re.sub(r'\\f[BIR]|["\\]', "", (MAN / page).read_text("utf-8"))


@pytest.mark.parametrize("page", ["culvert.1", "de/culvert.1"])
def test_every_command_and_option_of_culvert_is_in_its_page(page: str) -> None:
    text = _text(page)
    for name, command in typer.main.get_group(app).commands.items():
        [entry] = re.findall(rf"^\.BR {name}( .*)?$", text, re.MULTILINE)
        for option in (option for it in command.params for option in it.opts if option.startswith("--")):
            assert option == "--help" or option in entry, (name, option)


def test_every_setting_of_culvertd_is_in_its_page() -> None:
    text = _text("culvertd.8")
    for name in ("config", "cleanup", *(field.name for field in fields(Config))):
        assert re.search(rf"^\.BI? --{name.replace('_', '-')}\b", text, re.MULTILINE), name


@pytest.mark.parametrize(
    ("typed", "offered"), [("re", {"resources", "report", "resume"}), ("close --a", {"--all"})]
)
def test_the_shell_completes_commands_and_options(typed: str, offered: set[str]) -> None:
    asked = {"_CULVERT_COMPLETE": "complete_bash", "COMP_WORDS": f"culvert {typed}"}
    asked["COMP_CWORD"] = str(len(typed.split()))
    program = "from culvert_client.cli import app; app(prog_name='culvert')"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ | asked
    )
    assert set(ended.stdout.split()) == offered
