"""Roles over the real socket, by the kernel's peer credentials; and the command line as a person runs it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import sys
import zipfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import pytest
from culvert_client.config import Endpoint
from culvert_proto import CulvertError, Reason, agent_pb2, local_pb2
from culvert_proto.invitation_link import parse_invitation

from .controller import CODE, Controller, serving
from .enrolment_server import RECOVERY_CODES, TOKEN, TOTP_URI, accepts, enrolment_server, refuses
from .name_server import from_records, name_server
from .pki import Authority
from .running import FIRST, Running, running
from .test_organisations import Two

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="plays several users: needs root"),
]

ALICE, MALLORY = 1000, 1001

# The kernel reports the effective uid of who connects. Files are still read as root: others may not read the interpreter.
PROGRAM = """
import ctypes, os, sys
uid = int(sys.argv.pop(1))
os.setresuid(uid, uid, 0)
ctypes.CDLL(None).setfsuid(0)
from culvert_client.cli import app
app()
"""


# Takes every place there is, says nothing or nonsense, and holds on to it.
FLOOD = PROGRAM.replace(
    "from culvert_client.cli import app\napp()",
    """
import socket
held = []
nonsense = b"GET / HTTP/1.1\\r\\n\\r\\n", b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes(16384)
for number in range(320):
    one = socket.socket(socket.AF_UNIX)
    one.connect(sys.argv[1])
    held.append(one)
    if number < 10:
        # Connections that send garbage are closed; the others stay open.
        one.settimeout(5)
        try:
            one.sendall(nonsense[number % 2])
            while one.recv(65536):
                pass
        except OSError:
            pass
print("held", flush=True)
sys.stdin.read()
""",
)


@dataclass
class Ended:
    code: int
    out: str
    err: str


async def culvert(
    daemon: Running,
    uid: int,
    *arguments: str,
    stdin: str = "",
    language: str = "C.UTF-8",
    encoding: str = "utf-8",
    under: str = 'exec "$@"',
    directory: Path | None = None,
) -> Ended:
    """As a person whose desktop speaks that language, in a shell that runs `under`, the command being its arguments."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    command = [sys.executable, "-c", PROGRAM, str(uid), "--socket", str(daemon.settings.socket), *arguments]
    pipe = asyncio.subprocess.PIPE
    env |= {"LANG": language, "PYTHONIOENCODING": encoding}
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", under, "sh", *command), stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=directory
    )
    out, err = await process.communicate(stdin.encode())
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(encoding), err.decode(encoding))


@pytest.fixture
async def daemon(place: Path) -> AsyncGenerator[Running]:
    async with running(place, Endpoint("127.0.0.1", 9)) as daemon:
        yield daemon


@dataclass
class Lab:
    daemon: Running
    controller: Controller
    link: str


@pytest.fixture
async def lab(place: Path) -> AsyncGenerator[Lab]:
    infrastructure, devices = Authority("infrastructure"), Authority("devices")
    async with (
        name_server(from_records({})) as (upstream, _),
        serving(Controller(), infrastructure, devices) as controller,
        running(place, upstream) as daemon,
    ):
        answer = accepts(infrastructure, devices, f"127.0.0.1:{controller.port}")
        with enrolment_server(place, infrastructure, answer) as server:
            yield Lab(daemon, controller, server.link(infrastructure))


async def offered(socket: Path, typed: str) -> tuple[set[str], str]:
    """Bash's completions of the typed line, and the hint beside them."""
    program = "from culvert_client.cli import app; app(prog_name='culvert')"
    asked = {"_CULVERT_COMPLETE": "complete_bash", "COMP_WORDS": f"culvert {typed}"}
    asked |= {"COMP_CWORD": str(len(typed.split())), "CULVERT_SOCKET": str(socket)}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=pipe, stderr=pipe, env=os.environ | asked
    )
    out, err = await process.communicate()
    return set(out.decode().split()), err.decode()


async def test_the_shell_completes_what_the_daemon_knows(lab: Lab) -> None:
    socket = lab.daemon.settings.socket
    await culvert(lab.daemon, ALICE, "enroll", lab.link)
    await culvert(lab.daemon, ALICE, "code", stdin=CODE)
    assert await offered(socket, "close w") == (set(), "")
    assert (await culvert(lab.daemon, ALICE, "open", "wiki")).code == 0
    for typed, names in (
        ("open w", {"wiki.corp.example"}),
        ("open x", set[str]()),
        ("close w", {"wiki.corp.example"}),
        ("use g", {"gw-berlin"}),
        ("use a", {"auto"}),
    ):
        assert await offered(socket, typed) == (names, ""), typed
    assert await offered(socket.with_name("nobody.sock"), "open w") == (set(), "")


async def test_a_name_is_typed_and_read_as_people_write_it(lab: Lab) -> None:
    name, alike = "xn--bcher-kva.corp.example", "xn--e1awd7f.corp.example"
    lab.controller.profile.resources.add(name="books", fqdn=name, addresses=["10.20.0.10"])
    lab.controller.profile.resources.add(name="alike", fqdn=alike, addresses=["10.20.0.11"])
    await culvert(lab.daemon, ALICE, "enroll", lab.link)
    await culvert(lab.daemon, ALICE, "code", stdin=CODE)
    for spelling in ("BÜCHER.Corp.Example.", "bu\u0308cher.corp.example", name.upper(), "books"):
        opened = await culvert(lab.daemon, ALICE, "open", spelling)
        assert opened == Ended(0, "bücher.corp.example is open through gw-berlin.\n", "")
    assert lab.controller.calls == [f"open {name}"]
    for command in ("resources", "status"):
        assert "bücher.corp.example" in (await culvert(lab.daemon, ALICE, command)).out
    # In Cyrillic, and alike "epic".
    assert f"еріс.corp.example ({alike})" in (await culvert(lab.daemon, ALICE, "resources")).out
    assert "bücher.corp.example is open through" in (await culvert(lab.daemon, ALICE, "log")).out
    # A program reads the one that the DNS has.
    assert (
        json.loads((await culvert(lab.daemon, ALICE, "status", "--json")).out)["tunnels"][0]["fqdn"] == name
    )
    for typed in ("open bü", "open xn--b", "close bü"):
        names, _ = await offered(lab.daemon.settings.socket, typed)
        assert names <= {"bücher.corp.example", name}
        assert names, typed
    assert (await culvert(lab.daemon, ALICE, "close", "Bücher.corp.example.")).code == 0
    wrong = await culvert(lab.daemon, ALICE, "open", "😀.corp.example", language="de_DE.UTF-8")
    assert "das Zeichen “😀” (U+1F600) ist in Namen nicht zulässig" in wrong.err


async def test_the_public_socket_is_for_all_and_the_private_for_root(daemon: Running) -> None:
    assert stat.S_IMODE(daemon.settings.socket.stat().st_mode) == 0o666
    private = daemon.settings.socket.with_name("culvertd.sock.d")
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


async def test_the_first_to_enrol_owns_the_computer(lab: Lab) -> None:
    daemon = lab.daemon
    enrolled = await culvert(daemon, ALICE, "enroll", lab.link)
    assert enrolled.code == 0
    assert TOTP_URI in enrolled.out
    assert enrolled.out.endswith("Next: culvert code\nThen: culvert open wiki.corp.example\n")
    await daemon.until(lambda status: status.user == "alice")

    stranger = await culvert(daemon, MALLORY, "status", "--json")
    assert json.loads(stranger.out)["state"] == "STATE_NEEDS_CODE"
    assert "alice" not in stranger.out
    assert "Another user" in (await culvert(daemon, MALLORY, "status")).out
    assert "wiki" not in stranger.out
    for arguments in (
        ["open", "wiki"],
        ["close", "--all"],
        ["use", "auto"],
        ["code", CODE],
        ["enroll", lab.link],
    ):
        refused = await culvert(daemon, MALLORY, *arguments)
        assert refused.code == 3, arguments
        assert "may not" in refused.err

    again = await culvert(daemon, ALICE, "enroll", lab.link, "--yes")
    assert again.code == 3
    assert TOKEN not in again.err
    assert (await culvert(daemon, ALICE, "code", stdin=f"{CODE}\n")).code == 0
    opened = await culvert(daemon, ALICE, "open", "wiki")
    assert (opened.code, opened.out) == (0, "wiki.corp.example is open through gw-berlin.\n")
    shown = await culvert(daemon, ALICE, "status")
    assert "Signed in as alice on laptop" in shown.out
    assert "Packets go through none" in shown.out
    assert re.search(r"wiki\.corp\.example +gw-berlin +not used yet +none yet +10\.99\.0\.2", shown.out)
    assert "\x1b" not in shown.out
    resources = (await culvert(daemon, ALICE, "resources")).out.splitlines()
    assert resources[1].split() == ["wiki", "wiki.corp.example", "10.20.0.10"]
    assert "online" in (await culvert(daemon, ALICE, "gateways")).out
    assert (await culvert(daemon, ALICE, "use", "gw-berlin")).code == 0
    assert (await culvert(daemon, ALICE, "close", "wiki")).out == "wiki is closed.\n"
    assert lab.controller.open == {}
    for arguments, told in (
        (["open", "wiki"], {"gateway": "gw-berlin"}),
        (["pause", "15m"], {}),
        (["resume"], {}),
        (["use", "auto"], {}),
        (["close", "wiki"], {"closed": 0}),
    ):
        printed = json.loads((await culvert(daemon, ALICE, *arguments, "--json")).out)
        assert told.items() <= printed.get("tunnel", printed).items(), arguments

    for left in ("1 recovery code is left.", "That was the last recovery code"):
        recovered = await culvert(daemon, ALICE, "code", stdin=f"{lab.controller.recovery_codes[0]}\n")
        assert left in recovered.out
    proven = json.loads((await culvert(daemon, ALICE, "code", "--json", stdin=f"{CODE}\n")).out)
    assert proven.keys() == {"code_valid_until"}

    asked = await culvert(daemon, 0, "enroll", lab.link, "--name", "laptop-2")
    assert (
        asked.code,
        "this computer for alice would end" in " ".join(asked.err.replace("│", "").split()),
    ) == (2, True)
    root = await culvert(daemon, 0, "enroll", lab.link, "--name", "laptop-2", "--yes")
    assert root.code == 0
    assert (await culvert(daemon, ALICE, "code", CODE)).code == 3


async def test_only_the_owner_and_root_agree_to_public_networks(lab: Lab) -> None:
    daemon = lab.daemon
    lab.controller.profile.protected_prefixes.extend(["8.8.8.0/24", "9.9.9.0/24"])
    enrolled = await culvert(daemon, ALICE, "enroll", lab.link)
    assert "these public networks" in enrolled.out
    assert "those under corp.example" in enrolled.out
    await daemon.until(lambda status: status.user == "alice")
    assert (await culvert(daemon, MALLORY, "agree", "8.8.8.0/24", "--yes")).code == 3
    assert "8.8.8.0" not in (await culvert(daemon, MALLORY, "status", "--json")).out
    assert "culvert agree" in (await culvert(daemon, ALICE, "status")).out
    # Standard input is not a terminal, so the command cannot ask.
    assert (await culvert(daemon, ALICE, "agree")).code == 2
    agreed = await culvert(daemon, ALICE, "agree", "8.8.8.0/24", "--yes")
    assert (agreed.code, agreed.out) == (0, "Agreed: 8.8.8.0/24.\n")
    judged = json.loads((await culvert(daemon, ALICE, "doctor", "--json")).out)
    assert ["9.9.9.0/24" in it["what"] for it in judged if it["hop"] == "public networks"] == [True]
    assert (await culvert(daemon, 0, "agree", "--no")).out.startswith("Declined: 9.9.9.0/24.")
    assert (await culvert(daemon, ALICE, "agree")).out == "No public network waits for your answer.\n"


# A terminal whose person types what comes in.
TERMINAL = f'exec {sys.executable} -c "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)" "$@"'


async def test_at_a_terminal_the_person_reads_whose_invitation_it_is_and_agrees(lab: Lab) -> None:
    async def at_a_terminal(*typed: str, language: str = "C.UTF-8", uid: int = ALICE) -> Ended:
        keys = "".join(f"{line}\n" for line in typed)
        return await culvert(
            lab.daemon, uid, "enroll", lab.link, stdin=keys, language=language, under=TERMINAL
        )

    declined = await at_a_terminal("nein", language="de_DE.UTF-8")
    assert "Diese Einladung ist für Alice Liddell (alice), von 127.0.0.1." in declined.out
    assert "Die Einladung ist nicht benutzt." in declined.out
    assert (declined.code, "otpauth://" in declined.out) == (0, False)
    assert "culvert enroll 'LINK'" in (await culvert(lab.daemon, ALICE, "status")).out
    agreed = await at_a_terminal("yes", "000000", CODE)
    assert agreed.code == 0
    assert "The code is wrong" in agreed.out
    assert TOTP_URI in agreed.out
    assert "The code is right" in agreed.out
    assert (await at_a_terminal()).code == 3
    again = await at_a_terminal("no", uid=0)
    assert "This computer is enrolled there for alice already" in again.out
    assert "Signed in as alice" in (await culvert(lab.daemon, ALICE, "status")).out


async def test_another_organisation_is_the_owners_to_add_and_roots_to_leave(place: Path) -> None:
    two = Two(place)
    async with two.acme.serving(), two.beta.serving(), two.daemon() as daemon:
        with two.acme.invitation() as link:
            assert (await culvert(daemon, ALICE, "enroll", link)).code == 0
        await daemon.until(lambda status: status.user == "alice")
        assert two.acme.name not in (await culvert(daemon, ALICE, "resources")).out
        assert (
            await culvert(daemon, ALICE, "code", CODE)
        ).out == "The code is right: tunnels can be opened.\n"
        with two.beta.invitation() as link:
            assert (await culvert(daemon, MALLORY, "enroll", link)).code == 3
            assert (await culvert(daemon, ALICE, "enroll", link)).code == 0
        await daemon.until(lambda status: two.beta.of(status).state == local_pb2.STATE_NEEDS_CODE)
        # The only one that needs a code is meant, and named.
        proven = await culvert(daemon, ALICE, "code", CODE)
        assert proven.out == f"The code is right: tunnels of {two.beta.name} can be opened.\n"
        unclear = await culvert(daemon, ALICE, "code", CODE)
        assert unclear.code == 3
        assert f"{two.acme.name}, {two.beta.name}" in unclear.err
        assert (await culvert(daemon, ALICE, "code", CODE, "--organisation", two.acme.name)).code == 0
        assert (await culvert(daemon, ALICE, "open", "wiki.beta.example")).code == 0
        shown = (await culvert(daemon, ALICE, "status")).out
        assert shown.index(two.acme.name) < shown.index("Signed in as alice") < shown.index(two.beta.name)
        assert shown.index(two.beta.name) < shown.index("Signed in as bea") < shown.index("wiki.beta.example")
        assert shown.count("wiki.beta.example  ") == 1
        rows = (await culvert(daemon, ALICE, "resources")).out.splitlines()
        assert [row.split()[-1] for row in rows] == ["ORGANISATION", two.acme.name, two.beta.name]
        assert (await culvert(daemon, ALICE, "use", "gw-berlin")).code == 3
        assert (await culvert(daemon, ALICE, "use", "gw-berlin", "--organisation", two.beta.name)).code == 0
        doctor = json.loads((await culvert(daemon, ALICE, "doctor", "--json")).out)
        assert {it["title"].partition(": ")[0] for it in doctor} == {two.acme.name, two.beta.name}
        stranger = (await culvert(daemon, MALLORY, "status", "--json")).out
        assert "bea" not in stranger
        assert "gw-berlin" not in stranger

        for controller, public in ((two.acme.controller, "8.8.0.0/16"), (two.beta.controller, "9.9.0.0/16")):
            controller.profile.protected_prefixes.append(public)
            controller.tell(agent_pb2.WatchResponse(profile=controller.profile))
        await daemon.until(lambda status: len(status.awaiting_prefixes) == 2)
        both = await culvert(daemon, ALICE, "agree", "--yes")
        assert (both.code, both.out.count("Agreed: ")) == (0, 2)
        await daemon.until(lambda status: not status.awaiting_prefixes)

        assert (await culvert(daemon, ALICE, "leave", "--yes", two.beta.name)).code == 3
        left = await culvert(daemon, 0, "leave", "--yes", two.beta.name)
        assert (left.code, two.beta.name in left.out) == (0, True)
        assert two.beta.controller.open == {}
        assert (await culvert(daemon, ALICE, "open", "wiki")).code == 0


async def test_refusals_are_in_german_for_a_german_locale(lab: Lab) -> None:
    async def says(*arguments: str) -> str:
        ended = await culvert(lab.daemon, ALICE, *arguments, language="de_AT.UTF-8")
        return ended.out + ended.err

    assert "Nicht registriert" in await says("status")
    assert "Registriert als alice." in await says("enroll", lab.link)
    await lab.daemon.until(lambda status: status.user == "alice")
    assert "Der Code ist falsch." in await says("code", "000000")
    assert "Der Code stimmt" in await says("code", CODE)
    named = {"user": "alice", "name": "wiki.corp.example", "owner": "bob@corp.example"}
    lab.controller.refusal = CulvertError(Reason.NO_POLICY, **named)
    refused = "Keine Richtlinie erlaubt alice den Zugriff auf wiki.corp.example.\nbob@corp.example fragen"
    assert refused in await says("open", "wiki")
    assert f"wiki.corp.example wurde abgelehnt. {refused}".replace("\n", " ") in await says("log")
    assert json.loads(await says("status", "--json"))["last_error"]["message"].startswith(
        "No policy lets alice"
    )


async def test_a_flood_by_one_user_does_not_block_the_others(daemon: Running) -> None:
    command = [sys.executable, "-c", FLOOD, str(MALLORY), str(daemon.settings.socket)]
    pipe = asyncio.subprocess.PIPE
    flood = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert flood.stdout is not None
    assert await asyncio.wait_for(flood.stdout.readline(), 20) == b"held\n"
    for uid in (ALICE, 0):
        assert (await culvert(daemon, uid, "status", "--json")).code == 0
    await flood.communicate(b"")
    assert (await culvert(daemon, MALLORY, "status", "--json")).code == 0


async def test_the_daemon_refuses_huge_requests(daemon: Running) -> None:
    huge = local_pb2.EnrollRequest(link="culvert://enroll?" + "x" * (1 << 20))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await daemon.local.Enroll(huge)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await daemon.status()).state == local_pb2.STATE_NOT_ENROLLED


async def test_only_the_owner_reads_the_log(lab: Lab) -> None:
    daemon = lab.daemon
    await culvert(daemon, ALICE, "enroll", lab.link)
    await culvert(daemon, ALICE, "code", CODE)
    await culvert(daemon, ALICE, "open", "wiki")
    plain = await culvert(daemon, ALICE, "log")
    assert plain.code == 0
    assert [line[21:] for line in plain.out.splitlines()] == [
        "A code was accepted.",
        "wiki.corp.example is open through gw-berlin.",
    ]
    lines = (await culvert(daemon, ALICE, "log", "--json")).out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == [
        "ACTIVITY_KIND_CODE_PROVEN",
        "ACTIVITY_KIND_TUNNEL_UP",
    ]
    stranger = await culvert(daemon, MALLORY, "log", "-f")
    assert (stranger.code, stranger.out) == (3, "")
    paused = await culvert(daemon, MALLORY, "pause")
    assert paused.code == 3
    assert (await culvert(daemon, ALICE, "pause", "15m")).out.startswith("Paused until ")
    assert "Paused" in (await culvert(daemon, ALICE, "status")).out
    assert (await culvert(daemon, ALICE, "open", "wiki")).err.splitlines()[0] == "Culvert is paused."
    assert (await culvert(daemon, ALICE, "resume")).code == 0
    assert (await culvert(daemon, ALICE, "open", "wiki")).code == 0

    following = asyncio.create_task(culvert(daemon, ALICE, "log", "-f"))
    await asyncio.sleep(1)
    assert (await culvert(daemon, 0, "enroll", lab.link, "--yes")).code == 0
    assert (await culvert(daemon, 0, "code", CODE)).code == 0
    async with asyncio.timeout(30):
        ended = await following
    assert ended.code == 3
    assert "wiki.corp.example is open" in ended.out
    assert (await culvert(daemon, 0, "log")).out.count("\n") == 1


async def test_a_refusal_says_what_happened_and_what_to_do(lab: Lab) -> None:
    await culvert(lab.daemon, ALICE, "enroll", lab.link)
    wrong = await culvert(lab.daemon, ALICE, "code", "000000")
    assert wrong.code == 3
    assert wrong.err.splitlines() == [
        "The code is wrong.",
        "Check that your authenticator's clock is right, wait for the next code and type that.",
        f"More: {parse_invitation(lab.link).controller}/docs/reasons/CODE_WRONG",
    ]
    unknown = await culvert(lab.daemon, ALICE, "open", "nowhere.example")
    assert (unknown.code, unknown.err.splitlines()[0]) == (
        3,
        "No resource that you may open has the name nowhere.example.",
    )


async def test_the_secret_can_go_to_a_file_that_only_its_owner_reads(lab: Lab, place: Path) -> None:
    target = place / "totp"
    ended = await culvert(lab.daemon, ALICE, "enroll", "--totp-uri-file", str(target), stdin=lab.link + "\n")
    assert ended.code == 0
    assert "otpauth" not in ended.out + ended.err
    assert RECOVERY_CODES[0] not in ended.out + ended.err
    assert target.read_text().splitlines() == [TOTP_URI, *RECOVERY_CODES]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


async def test_a_used_invitation_leaves_no_file_and_no_enrolment(place: Path, daemon: Running) -> None:
    ours, target = Authority("ours"), place / "totp"
    with enrolment_server(place, ours, refuses(CulvertError(Reason.INVITATION_INVALID))) as server:
        ended = await culvert(daemon, 0, "enroll", server.link(ours), "--totp-uri-file", str(target))
    assert ended.code == 3
    assert "new invitation" in ended.err
    assert not target.exists()
    assert (await culvert(daemon, 0, "open", "wiki")).code == 3


@pytest.mark.parametrize(
    ("under", "file", "code"),
    [
        ('exec "$@" >&-', False, 74),
        ('exec "$@" >/dev/full', False, 74),
        # The reader of the pipe has ended before the command starts.
        ('exec 3>&1; { sleep 0.1; "$@"; echo $? >&3; } | exec 3>&-', False, 0),
        # No file may have a byte.
        ('exec prlimit --fsize=0 "$@"', True, 1),
    ],
)
async def test_the_invitation_stays_good_where_the_secret_would_be_lost(
    place: Path, daemon: Running, under: str, file: bool, code: int
) -> None:
    ours, target = Authority("ours"), place / "totp"
    options = ["--totp-uri-file", str(target)] if file else []
    with enrolment_server(place, ours, accepts(ours, ours, "127.0.0.1:9")) as server:
        ended = await culvert(daemon, 0, "enroll", server.link(ours), *options, under=under)
        assert server.bodies == []
    assert ended.code == code
    assert "| exec" not in under or ended.out == "74\n"
    assert "Traceback" not in ended.err
    assert "cannot be" in ended.err
    assert not target.exists()


async def test_output_that_is_lost_after_the_enrolment_is_told(place: Path, daemon: Running) -> None:
    ours = Authority("ours")
    reads, writes = os.pipe()

    def answer(body: dict[str, str]) -> tuple[int, dict[str, object]]:
        os.close(reads)
        return accepts(ours, ours, "127.0.0.1:9")(body)

    with enrolment_server(place, ours, answer) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, "0", "--socket", str(daemon.settings.socket)),
            *("enroll", server.link(ours)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writes,
            stderr=asyncio.subprocess.PIPE,
        )
        os.close(writes)
        _, err = await process.communicate()
    assert process.returncode == 74
    assert b"is enrolled, but its authenticator could not be shown" in err
    assert b"Ask your administrator for a new authenticator" in err
    assert b"Traceback" not in err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "iso8859-9"])
async def test_every_character_set_shows_the_secret_and_the_status(lab: Lab, encoding: str) -> None:
    enrolled = await culvert(
        lab.daemon, ALICE, "enroll", "--name", "Mäkčeň", lab.link, language="de_DE.UTF-8", encoding=encoding
    )
    assert enrolled.code == 0
    assert {TOTP_URI, *(f"  {it}" for it in RECOVERY_CODES)} <= set(enrolled.out.splitlines())
    assert (await culvert(lab.daemon, ALICE, "code", CODE, encoding=encoding)).code == 0
    for command in ("status", "resources", "gateways", "doctor", "log"):
        ended = await culvert(lab.daemon, ALICE, command, language="de_DE.UTF-8", encoding=encoding)
        assert ended.code == (command == "doctor"), ended
        assert ended.out
        assert "Traceback" not in ended.err


@pytest.mark.parametrize("under", ['exec "$@" >&-', 'exec "$@" >/dev/full'])
async def test_each_command_tells_that_its_output_is_lost(lab: Lab, under: str) -> None:
    await culvert(lab.daemon, ALICE, "enroll", lab.link)
    assert (await culvert(lab.daemon, ALICE, "code", CODE)).code == 0
    told = ("status", "resources", "gateways", "doctor", "log")
    for arguments in (*((it,) for it in told), *((it, "--json") for it in told)):
        ended = await culvert(lab.daemon, ALICE, *arguments, under=under)
        assert (ended.code, "cannot be written" in ended.err) == (74, True), (arguments, ended)
        assert "Traceback" not in ended.err


async def test_an_error_is_json_for_a_program_with_the_same_exit_code(lab: Lab) -> None:
    await culvert(lab.daemon, ALICE, "enroll", lab.link)
    for arguments, code, reason in [
        (("open", "nowhere.example"), 3, "NAME_NOT_OFFERED"),
        (("code", "000000"), 3, "CODE_WRONG"),
        (("close",), 2, "USAGE"),
        (("pause", "abc"), 2, "USAGE"),
        (("report", "/"), 1, "FILE_UNUSABLE"),
    ]:
        ended = await culvert(lab.daemon, ALICE, *arguments, "--json")
        error = json.loads(ended.out)["error"]
        assert (ended.code, error["reason"], ended.err) == (code, reason, "")
        assert error["message"]
        assert error["remedy"]
        assert error.keys() == {"reason", "message", "remedy", "shell", "fields", "page"}
        # Refusals of the catalogue have a page at the controller.
        assert error["page"].endswith(f"/docs/reasons/{reason}") if code == 3 else error["page"] == ""
        said = await culvert(lab.daemon, ALICE, *arguments)
        assert (said.code, f"More: {error['page']}" in said.err) == (code, code == 3)
    lab.daemon.settings.socket.unlink()
    ended = await culvert(lab.daemon, ALICE, "status", "--json")
    assert (ended.code, json.loads(ended.out)["error"]["reason"]) == (4, "DAEMON_DOWN")


async def test_leaving_asks_first(lab: Lab) -> None:
    await culvert(lab.daemon, ALICE, "enroll", lab.link)
    assert (await culvert(lab.daemon, 0, "leave")).code == 2
    # `script` gives the command a terminal and runs it with $SHELL, which need not understand bash's quoting.
    typed = 'SHELL=$BASH exec script -qec "$(printf "%q " "$@")" /dev/null'
    bash = "exec bash -c '" + typed + '\' bash "$@"'
    declined = await culvert(lab.daemon, 0, "leave", stdin="no\n", under=bash)
    assert "its key is deleted" in declined.out
    assert "Nothing has changed." in declined.out
    assert (await culvert(lab.daemon, ALICE, "status")).out.count("alice") == 1
    left = await culvert(lab.daemon, 0, "leave", stdin="yes\n", under=bash)
    assert "no longer enrolled" in left.out
    assert "Not enrolled" in (await culvert(lab.daemon, ALICE, "status")).out


async def test_a_report_without_a_name_is_written_here(lab: Lab, place: Path) -> None:
    ended = await culvert(lab.daemon, 0, "report", directory=place)
    assert ended.code == 0
    with zipfile.ZipFile(place / ended.out.split()[0]) as report:
        assert "status.json" in report.namelist()


async def test_bytes_that_are_no_text_are_wrong_usage(daemon: Running) -> None:
    ended = await culvert(daemon, ALICE, "open", "wiki\udcff")
    assert ended.code == 2
    assert "not text" in ended.err


async def test_a_report_has_the_verdicts_and_neither_a_secret_nor_a_name(
    lab: Lab, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The name server of the system need not be there.
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:1")
    await culvert(lab.daemon, ALICE, "enroll", lab.link)
    judged = await culvert(lab.daemon, ALICE, "doctor", "--json")
    # This daemon is not the one that the system asks.
    assert judged.code == 1
    verdicts = {it["hop"]: it for it in json.loads(judged.out)}
    assert (verdicts["daemon"]["good"], verdicts["code"]["good"]) == (True, False)

    target = place / "report.zip"
    assert (await culvert(lab.daemon, ALICE, "code", CODE)).code == 0
    assert (await culvert(lab.daemon, ALICE, "report", str(target))).code == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with zipfile.ZipFile(target) as report:
        told = {name: report.read(name).decode() for name in report.namelist()}
    assert {"status.json", "doctor.txt", "system.txt", "os-release"} <= told.keys()
    assert "wiki.corp.example" in told["status.json"]
    assert "ok daemon" in told["doctor.txt"]
    whole = "".join(told.values())
    key = (lab.daemon.settings.state_dir / FIRST / "identity/device.key").read_text().splitlines()[1]
    for secret in (TOKEN, TOTP_URI, CODE, key, *RECOVERY_CODES, "alice", "laptop"):
        assert secret not in whole
    again = await culvert(lab.daemon, ALICE, "report", str(target))
    assert again.code == 1, again
    assert "cannot be made" in again.err


async def test_usage_and_a_daemon_that_does_not_run_have_codes_of_their_own(daemon: Running) -> None:
    assert (await culvert(daemon, ALICE, "close")).code == 2
    assert (await culvert(daemon, ALICE, "dance")).code == 2
    daemon.settings.socket.unlink()
    ended = await culvert(daemon, ALICE, "status")
    assert ended.code == 4
    assert "does not answer" in ended.err
    assert "journalctl -u culvertd" in ended.err
    assert "Traceback" not in ended.err
