"""Pages of command lines, from what each program itself says about its commands and options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from culvert_client.cli import app as client
from culvert_service.cli import app as controller
from site_contents import ROOT

_SCRIPTS = Path(sys.executable).parent
_BUILT = ROOT / "target/release"
# A page is as wide as this in any terminal.
_COLUMNS = 88


@dataclass(frozen=True, slots=True)
class Program:
    """`app`: of a program with Typer; `file`: the executable of any other."""

    name: str
    text: str
    app: typer.Typer | None = None
    file: Path = Path()


PROGRAMS = (
    Program("culvert", "on the laptop: names, tunnels, codes, diagnosis", client),
    Program("culvertd", "on the laptop: the daemon", file=_SCRIPTS / "culvertd"),
    Program("culvert-controller", "the controller, and an operator's commands", controller),
    Program(
        "culvert-dns-updater",
        "keeps DNS zones equal to the resources",
        file=_SCRIPTS / "culvert-dns-updater",
    ),
    Program(
        "culvert-gateway",
        "joins a computer as a gateway, and keeps it one",
        file=_BUILT / "culvert-gateway",
    ),
    Program("sluice", "the P4 switch", file=_BUILT / "sluice"),
)
_LISTED = re.compile(r"^  ([a-z][a-z-]+)\s{2,}\S")


@dataclass(frozen=True, slots=True)
class Command:
    """`words`: the program and its subcommands; `options`: those that begin with a hyphen."""

    words: tuple[str, ...]
    help: str
    options: frozenset[str]


def write_commands() -> Iterator[tuple[str, str]]:
    """(path in the site, Markdown) of each page. Raises FileNotFoundError for a program that is not built."""
    lines = ["# Commands", "", "| program | use |", "|---|---|"]
    lines += [f"| [{it.name}]({it.name}.md) | {it.text} |" for it in PROGRAMS]
    yield "commands/index.md", "\n".join([*lines, ""])
    for program in PROGRAMS:
        lines = [f"# {program.name}", "", f"Version and options as `{program.name} --help` prints them.", ""]
        for command in read_commands(program):
            if len(command.words) > 1:
                lines += [f"## {' '.join(command.words)}", ""]
            lines += ["```text", command.help, "```", ""]
        yield f"commands/{program.name}.md", "\n".join(lines)


def read_commands(program: Program) -> Iterator[Command]:
    """The program's own command, then each below it, depth first."""
    if program.app is not None:
        yield from _of_typer(typer.main.get_command(program.app), None, (program.name,))
    else:
        yield from _of_program(program, ())


def _of_typer(command: Any, parent: Any, words: tuple[str, ...]) -> Iterator[Command]:
    """In this process: the import of these programs takes seconds, and some have dozens of commands."""
    command.rich_markup_mode = None
    context = command.context_class(command, info_name=words[-1], parent=parent, terminal_width=_COLUMNS)
    yield _command(words, command.get_help(context))
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        if not below.hidden:
            yield from _of_typer(below, context, (*words, name))


def _of_program(program: Program, words: tuple[str, ...]) -> Iterator[Command]:
    environment = {"PATH": os.environ["PATH"], "COLUMNS": str(_COLUMNS), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [program.file, *words, "--help"], check=True, capture_output=True, text=True, env=environment
    )
    yield _command((program.name, *words), done.stdout)
    _, found, listed = done.stdout.partition("Commands:\n")
    for line in listed.splitlines() if found else ():
        if not line.strip():
            break
        if (below := _LISTED.match(line)) and below[1] != "help":
            yield from _of_program(program, (*words, below[1]))


def _command(words: tuple[str, ...], text: str) -> Command:
    options = frozenset(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text))
    return Command(words, "\n".join(line.rstrip() for line in text.strip("\n").splitlines()), options)
