"""No output of any command fails on a character, and output that cannot be written has its exit code.

Each program is imported once in each surrounding, and forks for each of its commands, which its own parser names.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import culvert_client.cli
import culvert_lab.cli
import culvert_service.cli
import pytest
import typer.main

pytestmark = pytest.mark.slow

# module, function
PROGRAMS = {
    "culvert": ("culvert_client.cli", "app"),
    "culvertd": ("culvert_client.daemon", "main"),
    "culvert-controller": ("culvert_service.cli", "app"),
    "culvert-dns-updater": ("culvert_dns_updater.cli", "main"),
    "culvert-lab": ("culvert_lab.cli", "main"),
    "culvert-tray": ("culvert_tray.app", "main"),
}
RUNNER = """
import importlib, json, os, sys, tempfile
module, function, calls, found = json.loads(sys.argv[1])
entry = getattr(importlib.import_module(module), function)
told = []
for call in calls:
    err = tempfile.TemporaryFile()
    if (child := os.fork()) == 0:
        os.dup2(err.fileno(), 2)
        sys.argv = call
        try:
            code = entry()
        except SystemExit as end:
            code = end.code
        if not told or not isinstance(code, int | None):
            sys.exit(code)
        # The end of an interpreter with all these modules takes longer than the command: one of them is enough.
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        os._exit(code or 0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    err.seek(0)
    told.append((call, code, err.read().decode("latin-1")))
with open(found, "w") as file:
    json.dump(told, file)
"""
# Python takes an encoding from PYTHONIOENCODING, so that the system needs no such locale.
SURROUNDINGS = {
    "ascii": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin-1": {"LC_ALL": "de_DE", "PYTHONIOENCODING": "latin-1"},
    "iso8859-9": {"LC_ALL": "tr_TR", "PYTHONIOENCODING": "iso8859-9"},
}
REFUSING = ['exec "$@" >&-', 'exec "$@" >/dev/full', 'exec 3>&1; { sleep 0.1; exec "$@"; } | exec 3>&-']


def typer_commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from typer_commands(below, (*path, name))


def argparse_commands(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below: dict[str, argparse.ArgumentParser] = vars(action)["choices"]
            for name, parser_below in below.items():
                yield from argparse_commands(parser_below, (*path, name))


def commands(program: str) -> list[tuple[str, ...]]:
    match program:
        case "culvert":
            return list(typer_commands(typer.main.get_group(culvert_client.cli.app), (program,)))
        case "culvert-controller":
            return list(typer_commands(typer.main.get_group(culvert_service.cli.app), (program,)))
        case "culvert-lab":
            return list(argparse_commands(culvert_lab.cli._parser(), (program,)))
        case _:
            return [(program,)]


def helps(program: str) -> list[list[str]]:
    return [[*it, "--help"] for it in commands(program)] + [[program, "--version"]]


def mistakes(program: str) -> list[list[str]]:
    """No program does anything when it is asked so; the daemon of `culvert` does not run."""
    calls = [[*it, "--frob\u010d"] for it in commands(program)]
    if program == "culvert":
        calls += [[program, "--socket", "/nowhere", *it[1:], "--json"] for it in commands(program)[1:]]
    return calls


def run(
    program: str, calls: list[list[str]], place: Path, *, under: str = 'exec "$@"', **environment: str
) -> tuple[list[tuple[list[str], int, str]], bytes]:
    """Call, exit code and standard error of each, and the standard output of all."""
    found = place / "found.json"
    command = [sys.executable, "-c", RUNNER, json.dumps((*PROGRAMS[program], calls, str(found)))]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    done = subprocess.run(
        ["sh", "-c", under, "sh", *command],
        env=kept | environment | {"TERM": "dumb", "CULVERT_REST_LISTEN": "nowhere"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert found.exists(), done.stderr.decode()
    return json.loads(found.read_text()), done.stdout


def test_a_tray_without_a_desktop_says_so(tmp_path: Path) -> None:
    """Qt ends a process that finds no display with a core file."""
    [(_, code, err)], _ = run("culvert-tray", [["culvert-tray"]], tmp_path, DISPLAY="", WAYLAND_DISPLAY="")
    assert code == 1
    assert "there is no desktop here. On the command line: culvert status" in err


def assert_plain(call: list[str], err: str) -> None:
    assert "Traceback" not in err, (call, err)
    assert "Exception ignored" not in err, (call, err)


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_names_a_type_only_behind_an_option_that_takes_a_value(program: str, tmp_path: Path) -> None:
    told, out = run(program, helps(program), tmp_path)
    assert {code for _, code, _ in told} == {0}
    assert b"<bool>" not in out


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("encoding", SURROUNDINGS)
def test_every_command_speaks_in_every_character_set_and_forty_columns(
    tmp_path: Path, program: str, encoding: str
) -> None:
    surrounding = SURROUNDINGS[encoding] | {"COLUMNS": "40"}
    found, out = run(program, helps(program), tmp_path, **surrounding)
    for call, code, err in found:
        assert code == 0, (call, err)
        assert_plain(call, err)
    lines = out.decode(encoding).splitlines()
    assert sum(program in line for line in lines) >= len(found)
    if program in ("culvert", "culvert-controller"):  # argparse breaks no long word
        # An ellipsis that is spelt "..." makes its line longer.
        assert max(len(line) for line in lines if "..." not in line) <= 40
    # In a pipe, no table fills its last column with blanks.
    assert [line for line in lines if line != line.rstrip()] == []
    found, _ = run(program, mistakes(program), tmp_path, **surrounding)
    for call, code, err in found:
        assert code in (2, 4), (call, code, err)
        assert_plain(call, err)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("language", ["C.UTF-8", "de_DE.UTF-8"])
def test_the_help_of_every_command_is_whole_in_forty_five_columns(
    tmp_path: Path, program: str, language: str
) -> None:
    _, out = run(program, helps(program), tmp_path, COLUMNS="45", LC_ALL=language)
    lines = out.decode().splitlines()
    assert [line for line in lines if len(line) > 45 or line != line.rstrip()] == []
    # An ellipsis ends a text that is cut; behind a bracket it means a repetition.
    assert [line for line in lines if re.search(r"(?<!\])…|\w\.\.\.", line)] == []


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("under", REFUSING)
def test_output_that_cannot_be_written_has_its_exit_code(tmp_path: Path, program: str, under: str) -> None:
    found, _ = run(program, helps(program), tmp_path, under=under)
    for call, code, err in found:
        assert code == 74, (call, code, err)
        assert_plain(call, err)
        assert "cannot be written" in err or "| exec" in under
