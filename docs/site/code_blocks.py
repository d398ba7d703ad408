"""Judges the code in documents: commands and options that no program has, targets that `make` lacks, Python that does not
compile. It reads blocks of code and code within a sentence alike."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence

from command_pages import PROGRAMS, Command, read_commands
from site_contents import ROOT, SiteError

_FENCE = re.compile(r"^(?P<mark>```+|~~~+)(?P<language>\w*)")
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_TARGET = re.compile(r"^([a-z0-9][\w/-]*):", re.MULTILINE)
# Words between two commands of a line.
_ENDS = ("|", "||", "&&", ";", "&", "#")
# Texts that a hash or a key is made with, and no commands.
_LABELS = ("culvert audit cut 1", "culvert key-encryption key", "culvert gateway key-encryption key 1")
_SHELLS = ("sh", "bash", "shell", "")


def check(sources: Sequence[str]) -> None:
    """Raises SiteError with every fault's place."""
    commands = {it.words: it for program in PROGRAMS for it in read_commands(program)}
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text()))
    faults = [
        f"{source}:{number}: {fault}"
        for source in sources
        for number, language, code in find_code((ROOT / source).read_text())
        for fault in _judge(language, code, commands, targets)
    ]
    if faults:
        raise SiteError("\n".join(faults))


def find_code(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, language, code) of each block and span; a span has the language "span", an indented block none."""
    block: list[str] = []
    language = mark = before = ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = _FENCE.match(line.strip())
        if mark:
            if line.strip().startswith(mark):
                yield number - len(block), language, "\n".join(block)
                block, mark = [], ""
            else:
                block.append(line)
        elif fence:
            mark, language = fence["mark"], fence["language"]
        elif line.startswith("    ") and (block or not before.strip()):
            block.append(line[4:])
        else:
            if block:
                yield number - len(block), "", "\n".join(block)
                block = []
            for span in _SPAN.findall(line):
                yield number, "span", span
        before = line


def _judge(
    language: str, code: str, commands: Mapping[tuple[str, ...], Command], targets: set[str]
) -> Iterator[str]:
    try:
        match language:
            case "python" | "py":
                compile(code, "block", "exec")
            case "json":
                json.loads(code)
            case "toml":
                tomllib.loads(code)
            case "sh" | "bash" | "shell":
                subprocess.run(["bash", "-n"], input=code, text=True, check=True, capture_output=True)
            case _:
                pass
    except (ValueError, SyntaxError) as error:
        yield f"the {language} does not parse: {error}"
    except subprocess.CalledProcessError as error:
        yield f"the shell does not parse it: {error.stderr.strip()}"
    if language not in (*_SHELLS, "span") or code in _LABELS:
        return
    for line in code.replace("\\\n", " ").splitlines():
        # Another folder has another Makefile.
        known = None if re.match(r"\s*cd ", line) else targets
        for words in _split(line):
            yield from _judge_command(words, commands, known)


def _split(line: str) -> Iterator[list[str]]:
    """The commands of a line, each as its words, without sudo and settings of the environment."""
    try:
        # An explanation may stand in a column of its own.
        words = shlex.split(re.split(r"(?<=\S) {3,}", line)[0], comments=True)
    except ValueError:
        return
    command: list[str] = []
    for word in [*words, ";"]:
        if word in _ENDS or word.endswith(";"):
            if command:
                yield command
            command = []
        elif command or not (word in ("sudo", "$") or re.match(r"[A-Z_]+=", word)):
            command.append(word)


def _judge_command(
    words: list[str], commands: Mapping[tuple[str, ...], Command], targets: set[str] | None
) -> Iterator[str]:
    name = words[0].rpartition("/")[2]
    if words[0] == "make" and targets is not None:
        for word in words[1:]:
            if re.fullmatch(r"[a-z][\w-]+", word) and word not in targets:
                yield f"`make {word}`: the Makefile has no such target"
    if (name,) not in commands or words[0] not in (name, f"target/release/{name}"):
        return
    path, own = (name,), commands[(name,)]
    options = set(own.options)
    for word in words[1:]:
        # A subcommand, which may have subcommands itself.
        if (*path, word) in commands:
            path = (*path, word)
            options |= commands[path].options
        elif word.startswith("--"):
            option = word.partition("=")[0]
            if len(option) > 2 and option not in options:
                yield f"`{' '.join(path)}` has no option {option}"
        elif re.fullmatch(r"[a-z][a-z-]+", word) and _is_group(path, commands):
            yield f"`{' '.join(path)}` has no command {word}"
            return


def _is_group(path: tuple[str, ...], commands: Mapping[tuple[str, ...], Command]) -> bool:
    return any(len(it) == len(path) + 1 and it[: len(path)] == path for it in commands)
