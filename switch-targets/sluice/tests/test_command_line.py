"""Bad input ends with a reason and a remedy: code 2 for bad usage, 1 for what is found wrong later."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from sluice_rig import SWITCH, Sluice, flat

pytestmark = pytest.mark.slow

Arguments = dict[str, str]


def end(program: Path, *arguments: str) -> tuple[int, str]:
    command = ["ip", "netns", "exec", SWITCH, str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return done.returncode, done.stderr + done.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--port", "1=lan"], "port 1 is given twice"),
        (["--port", "3=wan"], "interface wan is given to two ports"),
        (["--cpu-port", "1"], "port 1 is the CPU port too"),
        (["--port", "511=x"], "the port number must be 0 to 510"),
        (["--port", "0=x", "--port", "0=y"], "port 0 is given twice"),
        (["--port", "0=x", "--cpu-port", "0"], "0 is not in 1..=510"),
        (["--port", "wan"], "must be NUMBER=INTERFACE"),
    ],
)
def test_bad_usage(rig: None, program: Path, arguments: Arguments, words: list[str], reason: str) -> None:
    code, said = end(program, *flat(arguments), *words)
    assert code == 2
    assert reason in said


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [("--device-id", "0", "0 is not in"), ("--grpc", "gateway", "invalid socket address")],
)
def test_bad_values(
    rig: None, program: Path, arguments: Arguments, option: str, value: str, reason: str
) -> None:
    code, said = end(program, *flat({**arguments, option: value}))
    assert code == 2
    assert reason in said


def exposed_kek(arguments: Arguments) -> None:
    Path(arguments["--kek"]).chmod(0o644)


def another_users_kek(arguments: Arguments) -> None:
    os.chown(arguments["--kek"], 12345, -1)


def short_kek(arguments: Arguments) -> None:
    Path(arguments["--kek"]).write_bytes(bytes(31))


def no_certificate(arguments: Arguments) -> None:
    arguments["--cert"] = arguments["--kek"]


def foreign_key(arguments: Arguments) -> None:
    arguments["--key"] = arguments["--key"].replace("gateway.key", "controller.key")


def address_elsewhere(arguments: Arguments) -> None:
    arguments["--grpc"] = "192.0.2.1:9559"


@pytest.mark.parametrize(
    ("bend", "reason"),
    [
        (exposed_kek, "is open to others (mode 0644): chmod 0600 it"),
        (another_users_kek, "belongs to user 12345, neither root nor who runs this: chown it"),
        (short_kek, "must hold exactly 32 raw bytes"),
        (no_certificate, "cannot use the switch's certificate in"),
        (foreign_key, "do not work together"),
        (address_elsewhere, "this host does not have the address: add it, or change --grpc"),
    ],
)
def test_faults(
    rig: None, program: Path, arguments: Arguments, bend: Callable[[Arguments], None], reason: str
) -> None:
    bend(arguments)
    code, said = end(program, *flat(arguments))
    assert code == 1
    assert reason in said


def test_an_interface_that_is_not_there(rig: None, program: Path, arguments: Arguments) -> None:
    code, said = end(program, *flat(arguments), "--port", "3=dmz")
    assert code == 1
    assert "cannot open interface dmz for port 3" in said
    assert "Create it first, or correct --port" in said


def test_help_into_full_disk_fails(program: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [program, "--help"], stdout=full, stderr=subprocess.PIPE, timeout=10, check=False
        )
    assert done.returncode == 1
    assert b"No space left" in done.stderr


def test_help_explains_every_option(rig: None, program: Path) -> None:
    code, said = end(program, "--help")
    assert code == 0
    for option in ("--device-id", "--port", "--grpc", "--client-ca", "--client-name", "--kek", "--log-json"):
        assert option in said


def test_it_is_deaf_but_on_its_own_address(sluice: Sluice) -> None:
    listening = subprocess.run(
        ["ip", "netns", "exec", SWITCH, "ss", "-Hltn"], capture_output=True, text=True, check=True
    )
    assert [line.split()[3] for line in listening.stdout.splitlines()] == ["127.0.0.1:9559"]
