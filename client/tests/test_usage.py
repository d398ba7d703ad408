"""How the command line is used, as a German reads it: no English word of Typer's is left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

# Texts are translated as the modules are imported: a language takes a process, here one for all calls.
_CALLS = """
import json, sys
from culvert_client.cli import app
from typer.testing import CliRunner

done = [CliRunner().invoke(app, it, prog_name="culvert") for it in json.load(sys.stdin)]
json.dump([(it.exit_code, it.output) for it in done], sys.stdout)
"""
_REFUSED: dict[tuple[str, ...], tuple[str, str]] = {
    ("open",): ("open", "Das Argument 'name' fehlt."),
    ("opne",): ("", "Einen Befehl 'opne' gibt es nicht. Gemeint sein könnte 'open'."),
    ("zzz",): ("", "Einen Befehl 'zzz' gibt es nicht."),
    ("open", "--frob"): ("open", "Eine Option --frob gibt es nicht."),
    ("--sockett", "x"): ("", "Eine Option --sockett gibt es nicht; gemeint sein könnte: --socket"),
    ("open", "a", "b"): ("open", "Unerwartet ist: b"),
    ("enroll", "--name"): ("enroll", "Zur Option '--name' gehört ein Wert."),
    ("resources", "--json=3"): ("resources", "Zur Option '--json' gehört kein Wert."),
    ("pause", "abc"): ("pause", "Ungültiger Wert: 15m, 1h, 1d oder tomorrow angeben"),
}
_HELP: list[tuple[str, ...]] = [("--help",), (), ("open", "--help"), ("log", "--help")]


def said(language: str, *calls: tuple[str, ...]) -> dict[tuple[str, ...], tuple[int, str]]:
    env = {**os.environ, "LC_ALL": language, "LANGUAGE": "", "COLUMNS": "200", "TERM": "dumb"}
    command = [sys.executable, "-c", _CALLS]
    done = subprocess.run(
        command, env=env, input=json.dumps(calls), capture_output=True, text=True, check=True
    )
    return {call: (code, text) for call, (code, text) in zip(calls, json.loads(done.stdout), strict=True)}


@pytest.fixture(scope="module")
def german() -> dict[tuple[str, ...], tuple[int, str]]:
    return said("de_DE.UTF-8", *_REFUSED, *_HELP)


@pytest.mark.parametrize("call", _REFUSED)
def test_wrong_usage_is_refused_in_german(
    german: dict[tuple[str, ...], tuple[int, str]], call: tuple[str, ...]
) -> None:
    code, text = german[call]
    command, why = _REFUSED[call]
    assert code == 2
    assert why in text
    assert re.match(rf"Aufruf: culvert {command}", text)


@pytest.mark.parametrize("call", _HELP)
def test_help_is_german(german: dict[tuple[str, ...], tuple[int, str]], call: tuple[str, ...]) -> None:
    text = german[call][1]
    assert "Diese Hilfe zeigen." in text
    assert not re.search(r"\b(Usage|OPTIONS|COMMAND|Show|Install|exit|required|default)\b", text), text


def test_english_stays_as_typer_has_it() -> None:
    code, text = said("en_GB.UTF-8", ("open",))[("open",)]
    assert code == 2
    assert "Usage: culvert open [OPTIONS]" in text
    assert "Missing argument 'name'." in text
