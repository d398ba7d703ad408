"""A German reads no English word of Typer's on the command line. Its tables fit the terminal."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from typing import Any

import pytest
import typer
from culvert_client.cli import app, words
from culvert_client.cli.verdict import Verdict
from culvert_proto import CulvertError, Reason, local_pb2
from rich.console import Console
from typer.testing import CliRunner

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


def test_no_text_of_others_commands_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    status = local_pb2.Status(
        state=local_pb2.STATE_READY,
        user="ali\u202eec",
        device_name="\x1b]0;title\x07",
        controller="https://x",
    )
    status.warnings.add(message="\x1b[2J", remedy="\u2066")
    words.say_status(status)
    words.say_error("\x9b2J", "\u202e")
    said = "".join(capsys.readouterr())
    assert not set("\x1b\x07\x9b\u202e\u2066") & set(said)
    assert "ali\ufffdec" in said


@pytest.mark.parametrize(("minutes", "asked"), [(29, True), (45, False)])
def test_a_code_that_ends_soon_names_the_command_for_the_next(
    capsys: pytest.CaptureFixture[str], minutes: int, asked: bool
) -> None:
    valid = round(time.time()) + 60 * minutes + 30
    words.say_status(local_pb2.Status(state=local_pb2.STATE_READY, user="alice", code_valid_until=valid))
    assert ("culvert code" in capsys.readouterr().out) is asked


@pytest.mark.slow
def test_the_help_of_a_narrow_terminal_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "45")
    commands: Any = getattr(typer.main.get_command(app), "commands")  # noqa: B009
    called = [["--help"], *([name, "--help"] for name in commands)]
    helps = {" ".join(it): CliRunner().invoke(app, it, prog_name="culvert").output for it in called}
    for call, text in helps.items():
        assert not [line for line in text.splitlines() if len(line) > 45 or line != line.rstrip()], call
        assert not re.search(r"…|(?<!\])\.\.\.", text), call
    whole = re.sub(r"\s+", "", helps["--help"])
    for text in ("CULVERT_SOCKET", "--install-completion", *(it.help for it in commands.values())):
        assert re.sub(r"\s+", "", text) in whole


@pytest.mark.parametrize("terminal", [True, False])
def test_a_narrow_terminal_has_whole_words_and_commands(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    text = io.StringIO()
    console = words.PlainConsole(
        file=text, force_terminal=terminal, width=45, soft_wrap=True, color_system=None
    )
    monkeypatch.setattr(words, "out", console)
    denied = CulvertError(Reason.NO_POLICY, user="alice", name="wiki.corp.example", owner="bob@corp.example")
    valid = round(time.time()) + 5 * 3600 + 12 * 60
    status = local_pb2.Status(state=local_pb2.STATE_READY, user="alice", device_name="laptop-of-alice")
    status.code_valid_until = valid
    open_network = CulvertError(
        Reason.LOCAL_NETWORK_OPEN, network="10.20.9.0/24", device="br0", prefix="10.20.0.0/16"
    )
    status.warnings.append(open_network.to_proto())
    words.say_status(status)
    words.say_activity(local_pb2.Activity(kind=local_pb2.ACTIVITY_KIND_DENIED, error=denied.to_proto()))
    cure = "Close the tunnel; it opens again at its next use: culvert close wiki.corp.example"
    words.say_verdicts([("", Verdict("packets", False, "The gateway dropped 2 of them.", cure))])
    lines = text.getvalue().splitlines()
    assert lines == [line.rstrip() for line in lines]
    assert any("culvert close wiki.corp.example" in line for line in lines)
    assert any("5 h 12 min" in line for line in lines)
    if terminal:
        assert max(map(len, lines)) <= 45
        mark = lines.index(next(it for it in lines if it.startswith("!")))
        assert lines[mark + 1].startswith("  ")
    else:
        assert f"  {cure}" in lines


@pytest.mark.parametrize(("terminal", "columns"), [(False, 80), (True, 40), (True, 200)])
def test_no_cell_of_a_table_is_cut(monkeypatch: pytest.MonkeyPatch, terminal: bool, columns: int) -> None:
    text = io.StringIO()
    out = Console(file=text, force_terminal=terminal, width=columns, soft_wrap=True, highlight=False)
    monkeypatch.setattr(words, "out", out)
    cells = ["wiki.corp.example", "gateway-of-the-branch-office-in-berlin", "fd00:99::7", "not used yet"]
    [name, gateway, address, _] = cells
    tunnel = local_pb2.Tunnel(
        fqdn=name, gateway=gateway, inner_address=address, state=local_pb2.TUNNEL_STATE_UP
    )
    words.say_tunnels(local_pb2.Status(tunnels=[tunnel]))
    assert all(map(text.getvalue().__contains__, cells))
    lines = text.getvalue().splitlines()
    assert len(lines) == 2 or max(map(len, lines)) <= 60
