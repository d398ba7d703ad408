"""The commands as an operator types them: another process, its output, its exit code."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from .conftest import World, settings_in
from .test_operation import GATEWAY

pytestmark = pytest.mark.slow
PROGRAM = Path(sys.executable).with_name("culvert-controller")


async def culvert(environment: Mapping[str, str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = await asyncio.to_thread(
        subprocess.run, [PROGRAM, *arguments], env=os.environ | environment, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


def of(world: World) -> dict[str, str]:
    assert world.settings.database_url is not None
    return {
        "CULVERT_STATE_DIR": str(world.settings.state_dir),
        "CULVERT_DATABASE_URL": world.settings.database_url.get_secret_value(),
        "CULVERT_REST_LISTEN": world.settings.rest_listen,
        "TZ": "Europe/Berlin",
    }


def test_commands_load_neither_database_nor_api() -> None:
    """`ready` is a container's health check: SQLAlchemy, FastAPI and ACME take seconds of computing on a small machine."""
    heavy = {"sqlalchemy", "fastapi", "acme", "culvert_service.controller.build"}
    code = f"import sys, culvert_service.cli; print(*{heavy} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == []


async def test_a_database_server_without_tls_is_named_with_its_remedy(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A server without TLS answers an SSLRequest with "N" (PostgreSQL's manual, section 54.2.10).
        await reader.read(8)
        writer.write(b"N")
        writer.close()

    # A spelling of loopback that the controller does not take for an address of this computer.
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"postgresql://culvert:hunter2@0x7f000001:{server.sockets[0].getsockname()[1]}/culvert"
    environment = {"CULVERT_STATE_DIR": str(tmp_path / "state"), "CULVERT_DATABASE_URL": url}
    for command in (["migrate"], ["doctor"], ["backup", str(tmp_path / "backup")]):
        code, out, err = await culvert(environment, *command)
        assert code == 1
        assert "offers no TLS. Remedy: " in out + err
        assert "hunter2" not in out + err
    server.close()


async def test_a_database_error_is_printed_without_a_traceback(cluster: str, tmp_path: Path) -> None:
    url = cluster.replace("/postgres?", "/nowhere?")
    environment = {"CULVERT_STATE_DIR": str(tmp_path / "state"), "CULVERT_DATABASE_URL": url}
    for command in (["migrate"], ["doctor"], ["backup", str(tmp_path / "backup")]):
        code, out, err = await culvert(environment, *command)
        assert code == 1
        assert 'database "nowhere" does not exist' in out + err
        assert "Traceback" not in err


async def test_a_wrong_setting_ends_it_with_what_to_mend() -> None:
    code, out, err = await culvert({"CULVERT_REST_LISTEN": "nowhere"}, "doctor")
    assert (code, out) == (1, "")
    assert err.startswith("culvert-controller: ")
    assert "rest_listen" in err
    assert "Traceback" not in err
    code, _, err = await culvert({}, "gateway", "ad")
    assert code == 2
    assert "No such command" in err


async def test_before_it_serves_the_commands_say_what_comes_next(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    here = {"CULVERT_STATE_DIR": str(settings.state_dir), "CULVERT_REST_LISTEN": settings.rest_listen}
    add = ("user", "add", "bob", "bob@corp.example")
    code, _, err = await culvert(here, *add)
    assert (code, err.endswith("holds no controller yet. Make one: culvert-controller init\n")) == (
        1,
        True,
    ), err
    code, out, err = await culvert(here, "doctor")
    assert (code, "the first time, run init" in out) == (1, True), out
    assert (await culvert(here, "init"))[0] == 0
    code, _, err = await culvert(here, *add)
    assert (code, err.endswith("Start it: culvert-controller serve\n")) == (1, True), err
    code, _, err = await culvert(here, "ready")
    assert (code, err) == (1, "not ready: Connection refused\n")
    code, out, err = await culvert(here, "doctor")
    # The doctor finds one fault: the controller does not run.
    assert (code, err) == (1, "")
    [wrong, _remedy] = [line for line in out.splitlines() if not line.endswith(" ok")]
    assert wrong.startswith("controller ")
    assert wrong.endswith(f"no controller runs at {settings.rest_url}. Start it: culvert-controller serve")


@pytest.mark.parametrize(
    "command",
    [
        ("doctor", "--config", "/nowhere.toml"),
        ("gateway", "add", "/nowhere.toml"),
        ("restore", "/nowhere.tar"),
        ("backup", "/proc/nowhere/x.tar"),
    ],
)
async def test_a_file_that_is_not_there_is_named_without_an_error_number(
    world: World, command: tuple[str, ...]
) -> None:
    code, _, err = await culvert(of(world), *command)
    assert code == 1
    assert "No such file or directory" in err
    assert "Errno" not in err
    assert "nowhere" in err


@pytest.mark.parametrize(
    "command",
    [
        ("backup", "{}/backup.tar"),
        ("gateway", "reader", "{}"),
        ("gateway", "bundle", "gw-berlin", "{}"),
        ("audit", "cut", "--before", "2020-01-01", "--export", "{}/lines.jsonl"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
async def test_a_directory_that_takes_no_file_is_named_with_its_remedy(
    world: World, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "a-file").write_text("")
    for directory, remedy in (
        ("/proc/nowhere", "Remedy: make this directory first, or name another one"),
        (str(tmp_path / "a-file"), "Remedy: name a directory"),
    ):
        code, _, err = await culvert(of(world), *(word.format(directory) for word in command))
        assert code == 1
        assert re.search(rf"(?<![\w/]){re.escape(directory)}: [^/]*{re.escape(remedy)}", err), err


async def test_a_controller_is_administered_by_commands(world: World, tmp_path: Path) -> None:
    environment, description = of(world), tmp_path / "gateway.toml"
    description.write_text(GATEWAY.format(port=9))
    assert (await culvert(environment, "user", "add", "bob", "bob@corp.example"))[0] == 0
    code, out, _ = await culvert(environment, "user", "invite", "bob")
    assert code == 0
    assert "/enroll#" in out
    until = r"until \d{4}-\d\d-\d\d \d\d:\d\d CES?T"
    assert re.search(until, out)
    assert re.search(until, (await culvert(environment, "user", "invitations"))[1])
    assert (await culvert(environment, "gateway", "add", str(description)))[0] == 0
    code, out, _ = await culvert(environment, "gateway", "list")
    assert code == 0
    assert "gw-berlin" in out
    assert (await culvert(environment, "ready"))[0] == 0
    code, out, _ = await culvert(environment, "doctor")
    assert code == 1
    assert "gateway gw-berlin" in out
    code, _, err = await culvert(environment, "user", "invite", "mallory")
    assert code == 1
    assert "mallory does not exist" in err
    assert (await culvert(environment, "audit", "verify"))[0] == 0


async def test_a_controller_is_made_kept_and_brought_back_by_commands(tmp_path: Path) -> None:
    kept, elsewhere = tmp_path / "culvert.tar", tmp_path / "elsewhere"
    here = {"CULVERT_STATE_DIR": str(settings_in(tmp_path).state_dir), "CULVERT_LOG_JSON": "true"}
    code, out, err = await culvert(here, "init")
    assert code == 0, err
    assert "token" in out
    code, _, err = await culvert(here, "migrate")
    assert code == 0
    lines = [json.loads(line) for line in err.splitlines()]
    assert "migrated" in [line["message"] for line in lines]
    assert all({"time", "level", "logger"} <= line.keys() for line in lines)
    code, _, err = await culvert(here, "backup", str(kept))
    assert code == 0, err
    assert kept.stat().st_mode & 0o777 == 0o600
    code, _, err = await culvert(here, "restore", str(kept))
    assert code == 1
    assert "belongs to a controller already" in err
    there = here | {"CULVERT_STATE_DIR": str(elsewhere), "TZ": "Europe/Berlin"}
    code, out, err = await culvert(there, "restore", str(kept))
    assert code == 0, err
    assert re.match(r"The controller is as it was at \d{4}-\d\d-\d\d \d\d:\d\d CES?T\.\n", out)
    assert (await culvert({"CULVERT_STATE_DIR": str(elsewhere)}, "audit", "verify"))[0] == 0
