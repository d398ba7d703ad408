"""Each command that a text tells a person to run exists, with its options: of `culvert` and of `culvert-controller`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polib
import pytest
import typer.main
from culvert_client.cli import app as client
from culvert_proto import CATALOGUE
from culvert_service.cli import app as controller
from culvert_tray.translation import forms

ROOT = Path(__file__).parents[1]
PROGRAMS = {"culvert": client, "culvert-controller": controller}
# The sentence "The program culvert is not installed" names no command.
_NAMED = re.compile(r"\b(culvert-controller|culvert) (?!ist?\b)([a-z][a-z-]+)((?: --?[a-z-]+)*)")


def texts() -> Iterator[str]:
    for entry in CATALOGUE.values():
        yield from (entry.message, entry.remedy)
    for file in ROOT.glob("*/culvert_*/locale/de.po"):
        for entry in polib.pofile(str(file)):
            yield from (entry.msgid, entry.msgstr)
    for english, german in forms("de").items():
        yield from (english, *german)
    for file in (*ROOT.glob("tray-ui/culvert_tray/help/*.md"), *ROOT.glob("service/console/src/**/*.tsx")):
        yield file.read_text("utf-8")


def named() -> set[tuple[str, str, str]]:
    return {(match[1], match[2], match[3]) for text in texts() for match in _NAMED.finditer(text)}


@pytest.mark.parametrize(("program", "name", "options"), sorted(named()))
def test_a_named_command_exists(program: str, name: str, options: str) -> None:
    command = typer.main.get_group(PROGRAMS[program]).commands.get(name)
    assert command is not None, f"{program} has no command {name}"
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(options.split()) <= known


def test_commands_are_found_in_the_texts() -> None:
    assert ("culvert", "code", "") in named()
    assert ("culvert-controller", "rotate-device-ca", "") in named()
