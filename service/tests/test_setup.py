"""`culvert-controller setup` below a directory: what it asks, refuses, writes, and takes back."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import tomllib
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from culvert_db import create_engine, installation, upgrade
from culvert_lab.free_port import free_port
from culvert_service.config import ConfigurationError, load
from culvert_service.controller.database import make_engine
from culvert_service.operation import doctor
from culvert_service.operation.rest_client import readiness
from culvert_service.setup import answers, examination
from culvert_service.setup.answers import AnswerError, Answers
from postgres_servers import RELEASES, pair
from sqlalchemy import text

from .test_cli import PROGRAM

# A set-up makes a cluster or migrates a database, in a process of its own each.
pytestmark = pytest.mark.timeout(300)

STATE = "var/lib/culvert-controller"
SETTINGS = "etc/culvert/controller.toml"


@pytest.mark.parametrize(
    ("said", "name", "port"),
    [
        ("vpn.corp.example", "vpn.corp.example", None),
        (" VPN.Corp.Example. ", "vpn.corp.example", None),
        ("https://vpn.corp.example:443/console", "vpn.corp.example", 443),
        ("bücher.example", "xn--bcher-kva.example", None),
    ],
)
def test_a_public_name_has_one_spelling(said: str, name: str, port: int | None) -> None:
    assert answers.parse_name(said) == (name, port)


@pytest.mark.parametrize(
    "said",
    ["", "vpn", "192.0.2.1", "192.0.2.1:443", "[2001:db8::1]", "a..b", "a.b:0", "a.b:x", "a b.example"],
)
def test_no_address_and_no_half_name_is_a_public_name(said: str) -> None:
    with pytest.raises(AnswerError):
        answers.parse_name(said)


def test_zones_are_absolute_and_each_named_once() -> None:
    assert answers.parse_zones(["Corp.Example, corp.example.", "lan."]) == ("corp.example", "lan")
    for wrong in ([], [""], ["corp"], ["*.corp.example"], ["corp..example"], ["-a.example"]):
        with pytest.raises(AnswerError):
            answers.parse_zones(wrong)


def test_protected_prefixes_are_those_that_devices_accept() -> None:
    assert answers.parse_protected(["10.20.0.0/16, fd00:20::/48", "10.20.0.0/16"]) == (
        "10.20.0.0/16",
        "fd00:20::/48",
    )
    assert answers.parse_protected(["none"]) == ()
    for wrong, why in (
        ("", "or none"),
        ("none 10.20.0.0/16", "none alone"),
        ("10.20.0.1/16", "write a prefix as 10.20.0.0/16"),
        ("0.0.0.0/0", "too wide"),
        ("2000::/3", "too wide"),
        ("127.0.0.0/8", "each computer needs for itself"),
        ("corp.example", "write a prefix as 10.20.0.0/16"),
    ):
        with pytest.raises(AnswerError, match=why):
            answers.parse_protected([wrong])


def test_a_gateway_at_a_protected_address_is_a_finding() -> None:
    gateway = {
        "name": "berlin",
        "address": "10.20.0.1",
        "public_address": None,
        "address6": None,
        "public_address6": None,
    }
    [found] = doctor.find_unreachable([gateway], ["10.30.0.0/16", "10.20.0.0/16"])
    assert "10.20.0.1 is in the protected prefix 10.20.0.0/16" in found.wrong
    assert not list(doctor.find_unreachable([gateway | {"public_address": "192.0.2.1"}], ["10.20.0.0/16"]))


@pytest.mark.parametrize(
    "said",
    [
        "postgres",
        "mysql://a@b/c",
        "postgresql://culvert@/",
        "postgresql://culvert@db",
        "postgresql://a:hunter2@db:x/c",
    ],
)
def test_a_database_url_that_cannot_be_used_is_refused_without_it(said: str) -> None:
    with pytest.raises(AnswerError) as caught:
        answers.parse_database(said)
    assert "hunter2" not in str(caught.value)


def test_a_changed_setting_leaves_comments_and_other_settings() -> None:
    before = (
        '# By hand.\nlog_json = true\nmanaged_zones = ["a.example"]\npublic_rest_url = "https://a.example"\n'
    )
    after = answers.change(
        before, {"managed_zones": ["b.example"], "public_rest_url": None, "state_dir": "/s"}
    )
    assert "# By hand." in after
    assert tomllib.loads(after) == {"log_json": True, "managed_zones": ["b.example"], "state_dir": "/s"}
    with pytest.raises(ConfigurationError):
        answers.change('managed_zones = [\n "a.example",\n]\n', {"managed_zones": ["b.example"]})


def test_a_secret_is_in_no_settings() -> None:
    found = Answers("vpn.corp.example", ("corp.example",), database="postgresql://culvert:hunter2@db/culvert")
    assert found.database_is_secret
    assert "hunter2" not in answers.render(found.settings(Path("/state"), any_host="[::]"))


class Host:
    """A directory in place of /, and ports of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.ports = free_port(), free_port()

    def arguments(self, *more: str) -> list[str]:
        ports = ("--port", str(self.ports[0]), "--agent-port", str(self.ports[1]))
        told = ("--public-name", "vpn.corp.example", "--zone", "corp.example", "--elsewhere", "--yes")
        told = (*told, "--protect", "10.20.0.0/16")
        return ["setup", "--root", str(self.root), *ports, *told, *more]

    async def set_up(
        self, *more: str, before: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        done = await asyncio.to_thread(
            subprocess.run,
            [*before, str(PROGRAM), *self.arguments(*more)],
            env=os.environ | (environment or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr

    def files(self) -> dict[str, str]:
        found = (it for it in self.root.rglob("*") if it.is_file())
        return {str(it.relative_to(self.root)): it.read_text(errors="replace") for it in found}

    @property
    def settings(self) -> dict[str, object]:
        return tomllib.loads((self.root / SETTINGS).read_text())

    @property
    def is_untouched(self) -> bool:
        return not any(self.root.rglob("*"))


@pytest.fixture
def host() -> Generator[Host]:
    # Short: the path of the embedded Postgres' socket has a limit.
    with tempfile.TemporaryDirectory(prefix="setup-") as root:
        yield Host(Path(root))


@asynccontextmanager
async def fresh_database(cluster: str, *statements: str) -> AsyncGenerator[str]:
    """An empty database."""
    name = f"setup_{os.urandom(6).hex()}"
    engine = create_engine(cluster).execution_options(isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name}"))
        url = cluster.replace("/postgres?", f"/{name}?")
        inside = create_engine(url)
        async with inside.begin() as there:
            for statement in statements:
                await there.execute(text(statement.replace("NAME", name)))
        await inside.dispose()
        yield url
        await connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        await connection.execute(text(f"DROP ROLE IF EXISTS {name}_dns"))
    await engine.dispose()


async def relations(url: str) -> installation.Content:
    engine = make_engine(url, pooled=True)
    try:
        return await installation.content(engine)
    finally:
        await engine.dispose()


def talk(arguments: list[str], *exchange: tuple[bytes, bytes]) -> tuple[int, bytes]:
    """Exit code and the output at a terminal, where each answer is given once its question has been shown."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(PROGRAM, [str(PROGRAM), *arguments])  # noqa: S606
    said, shown = b"", 0
    try:
        for question, answer in exchange:
            while (found := said.find(question, shown)) < 0:
                said += os.read(terminal, 4096)
            shown = found + len(question)
            os.write(terminal, answer)
        while part := os.read(terminal, 4096):
            said += part
    except OSError:
        # The program has closed the terminal.
        pass
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


@pytest.mark.slow
def test_a_person_is_asked_again_until_an_answer_can_be_used(host: Host) -> None:
    ports = ("--port", str(host.ports[0]), "--agent-port", str(host.ports[1]))
    code, said = talk(
        ["setup", "--root", str(host.root), "--elsewhere", *ports],
        (b"vpn.corp.example: ", b"192.0.2.1\n"),
        (b"vpn.corp.example: ", b"vpn.corp.example\n"),
        (b"as corp.example: ", b"corp\n"),
        (b"as corp.example: ", b"corp.example, lab.example\n"),
        (b"or none: ", b"\n"),
        (b"or none: ", b"10.20.0.1/16\n"),
        (b"or none: ", b"none\n"),
        (b"[embedded]: ", b"mysql://db/culvert\n"),
        (b"[embedded]: ", b"\n"),
        (b"Go on? [Y/n]: ", b"n\n"),
    )
    assert (code, b"nothing was changed" in said) == (1, True), said
    assert b"No prefix is protected" in said
    assert host.is_untouched


@pytest.mark.slow
async def test_what_it_writes_serves_and_its_link_makes_the_first_account(host: Host) -> None:
    code, said = await host.set_up()
    assert code == 0, said
    assert (host.root / SETTINGS).stat().st_mode & 0o777 == 0o640
    assert (host.root / STATE).stat().st_mode & 0o777 == 0o700
    [token] = re.findall(r"https://vpn\.corp\.example:\d+/console/setup#token=(\S+)", said)
    # Before the link it tells of the browser's warning, and of the CA that the browser then shows.
    ca = host.root / STATE / "infrastructure-ca.pem"
    fingerprint = x509.load_pem_x509_certificate(ca.read_bytes()).fingerprint(hashes.SHA256()).hex()
    warning = said.partition("Open this link")[0]
    for said_before in ("Browsers warn", f"{fingerprint}\n", f"{ca} in browsers"):
        assert said_before in warning
    # The link is on the terminal alone.
    assert not [name for name, content in host.files().items() if token in content]
    settings = load(host.root / SETTINGS)
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(host.root / "notify"))
    manager.settimeout(60)
    serving = await asyncio.create_subprocess_exec(
        *(PROGRAM, "serve", "--config", str(host.root / SETTINGS)),
        env=os.environ | {"NOTIFY_SOCKET": str(host.root / "notify")},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert await asyncio.to_thread(manager.recv, 100) == b"READY=1"
        assert await asyncio.to_thread(readiness, settings) == ""
        answer = await asyncio.to_thread(post_setup, host, token)
        assert answer.startswith("HTTP/1.1 201"), answer
        # A second run says that it is set up, and finds its own ports taken by itself.
        before = host.files().keys()
        code, said = await host.set_up()
        assert (code, "Nothing differs" in said) == (0, True), said
        assert host.files().keys() == before
    finally:
        serving.terminate()
        await serving.wait()
        manager.close()


def post_setup(host: Host, token: str) -> str:
    context = ssl.create_default_context(cafile=str(host.root / STATE / "infrastructure-ca.pem"))
    body = f'{{"token": "{token}", "name": "anna", "password": "correct horse battery"}}'
    head = "POST /api/v1/setup HTTP/1.1\r\nHost: vpn.corp.example\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    plain = socket.create_connection(("127.0.0.1", host.ports[0]))
    with context.wrap_socket(plain, server_hostname="vpn.corp.example") as connection:
        connection.sendall((head + body).encode())
        return b"".join(iter(lambda: connection.recv(4096), b"")).decode()


@pytest.mark.long
@pytest.mark.slow
async def test_it_refuses_before_it_touches_anything(host: Host, tmp_path: Path) -> None:
    code, said = await host.set_up("--database", "postgresql://culvert:hunter2@db/culvert")
    assert (code, "hunter2" in said, "--database-file" in said) == (1, False, True), said
    code, said = await host.set_up("--zone", "corp")
    assert (code, "absolute" in said) == (1, True), said
    with socket.create_server(("", host.ports[1])):
        code, said = await host.set_up()
    assert (code, f"sport = :{host.ports[1]}" in said) == (1, True), said
    code, said = await host.set_up("--database", f"postgresql://culvert@127.0.0.1:{free_port()}/culvert")
    assert (code, "Connection refused" in said or "Connect call failed" in said) == (1, True), said
    (host.root / "var").mkdir()
    small = f'mount -t tmpfs -o size=32m tmpfs {host.root}/var && exec "$@"'
    code, said = await host.set_up(before=("unshare", "--mount", "sh", "-c", small, "sh"))
    assert (code, re.search(r"disk .* 2048 MiB are needed", said) is not None) == (1, True), said
    (host.root / "var").rmdir()
    assert host.is_untouched


@pytest.mark.slow
def test_without_a_terminal_or_as_another_user_it_asks_nothing() -> None:
    done = subprocess.run(
        [PROGRAM, "setup", "--root", "/tmp"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert (done.returncode, b"no terminal" in done.stderr) == (1, True)
    nobody = ("unshare", "--user", "--map-user=65534", "--map-group=65534", "--")
    done = subprocess.run([*nobody, PROGRAM, "setup", "--yes"], capture_output=True, check=False)
    assert (done.returncode, b"needs root" in done.stderr) == (1, True), done.stderr


def test_a_name_that_does_not_lead_here_needs_a_word(tmp_path: Path) -> None:
    nowhere = Answers("vpn.invalid", ("corp.example",), port=free_port(), agent_port=free_port())
    [name, *_] = examination.host(nowhere, tmp_path, elsewhere=False)
    assert "does not resolve" in name.wrong
    assert "--elsewhere" in name.remedy
    [name, *_] = examination.host(nowhere, tmp_path, elsewhere=True)
    assert not name.wrong
    here = Answers("localhost", ("corp.example",), port=free_port(), agent_port=free_port())
    [name, *_] = examination.host(here, tmp_path, elsewhere=False)
    assert "other computers cannot reach" in name.wrong


@pytest.mark.long
@pytest.mark.slow
async def test_only_an_empty_database_or_this_culverts_own_is_used(
    host: Host, cluster: str, tmp_path: Path
) -> None:
    async with fresh_database(cluster, "CREATE TABLE orders (id int)") as url:
        code, said = await host.set_up("--database", url)
        assert (code, "another program's tables" in said) == (1, True), said
    async with fresh_database(cluster, "ALTER DATABASE NAME SET default_transaction_read_only = on") as url:
        code, said = await host.set_up("--database", url)
        assert (code, "read-only" in said) == (1, True), said
        assert host.is_untouched
    async with fresh_database(cluster) as url:
        code, said = await host.set_up("--database", url)
        assert (code, "Postgres 18" in said) == (0, True), said
        assert host.settings["database_url"] == url
        # Another host: it has other keys.
        code, said = await Host(tmp_path).set_up("--database", url)
        assert (code, "belongs to another Culvert" in said) == (1, True), said
        # The same keys again, as after a set-up that was cut off before its end.
        (host.root / SETTINGS).unlink()
        code, said = await host.set_up("--database", url)
        assert code == 0, said
        # And no other controller's keys serve on it.
        done = await asyncio.to_thread(
            subprocess.run,
            [PROGRAM, "migrate"],
            env=os.environ | {"CULVERT_STATE_DIR": str(tmp_path / "third"), "CULVERT_DATABASE_URL": url},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, "belongs to another Culvert" in done.stderr) == (1, True), done.stderr


@pytest.mark.long
@pytest.mark.slow
async def test_a_standby_is_refused_and_its_primary_is_found(host: Host, tmp_path: Path) -> None:
    async with pair(tmp_path, RELEASES[0]) as (primary, standby):
        code, said = await host.set_up("--database", standby.url())
        assert (code, "it is read-only" in said, "name the primary" in said) == (1, True, True), said
        assert host.is_untouched
        both = f"postgresql://culvert@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/postgres"
        code, said = await host.set_up("--database", both)
        assert code == 0, said


# `setup` on a disk that has room at first, and is full from the first table on. What it leaves there is shown.
_FILLED = """
mount -t tmpfs -o size=2100m tmpfs ROOT/var
fill() { fallocate -l "$(df --output=avail -B1 ROOT/var | tail -n 1)" "ROOT/var/filler.$1"; }
(until [ -e ROOT/STATE/postgres/data/base ]; do sleep 0.02; done; for n in $(seq 100); do fill $n; done) 2>/dev/null &
code=0; "$@" || code=$?
wait; rm ROOT/var/filler.*; echo "left: $(ls -A ROOT/var)"; exit $code
"""


@pytest.mark.long
@pytest.mark.slow
async def test_a_disk_that_fills_up_in_the_middle_is_named(host: Host) -> None:
    (host.root / "var").mkdir()
    script = _FILLED.replace("ROOT", str(host.root)).replace("STATE", STATE)
    code, said = await host.set_up(before=("unshare", "--mount", "sh", "-c", script, "sh"))
    assert (code, "No space left on device" in said, "as it was before" in said) == (1, True, True), said
    assert re.search(r"Remedy: make room|Make room", said), said
    assert "left: \n" in said, said
    assert "Traceback" not in said
    assert 'File "/' not in said


# Refuses one table of a migration, after the tables before it are made.
_BREAK = """
CREATE SCHEMA broken
""", """
CREATE FUNCTION broken.refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN IF EXISTS (SELECT FROM pg_class WHERE relname = 'idempotency_keys') THEN RAISE 'the disk broke'; END IF; END $$
""", """
CREATE EVENT TRIGGER refuse ON ddl_command_end EXECUTE FUNCTION broken.refuse()
"""  # fmt: skip


@pytest.mark.long
@pytest.mark.slow
async def test_a_failure_at_any_step_leaves_host_and_database_as_they_were(host: Host, cluster: str) -> None:
    async with fresh_database(cluster, *_BREAK) as url:
        code, said = await host.set_up("--database", url)
        assert (code, "the disk broke" in said) == (1, True), said
        assert host.is_untouched
        assert not (await relations(url)).used
    async with fresh_database(cluster) as url:
        # Keys and tables are made; then the settings cannot be written.
        (host.root / "etc").write_text("no directory")
        code, said = await host.set_up("--database", url)
        assert (code, "Everything is as it was before" in said) == (1, True), said
        (host.root / "etc").unlink()
        assert host.is_untouched
        left = await relations(url)
        assert (left.used, left.has_dns_role) == (False, False)
        (host.root / "var").write_text("no directory")
        code, said = await host.set_up("--database", url)
        assert code == 1, said
        (host.root / "var").unlink()
        assert host.is_untouched
        assert (await host.set_up("--database", url))[0] == 0


@pytest.mark.long
@pytest.mark.slow
async def test_a_signal_in_the_middle_takes_everything_back(host: Host) -> None:
    running = await asyncio.create_subprocess_exec(
        PROGRAM, *host.arguments(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    while not (host.root / STATE / "postgres").exists():
        await asyncio.sleep(0.02)
        assert running.returncode is None
    running.send_signal(signal.SIGTERM)
    said = (await running.communicate())[0].decode()
    assert (running.returncode, "SIGTERM" in said, "as it was before" in said) == (1, True, True), said
    assert host.is_untouched


@pytest.mark.slow
async def test_a_second_run_changes_what_differs_only_when_told(host: Host, cluster: str) -> None:
    async with fresh_database(cluster) as url:
        assert (await host.set_up("--database", url))[0] == 0
        before = host.files()
        code, said = await host.set_up("--zone", "lab.example", "--trusted-proxy", "192.0.2.7")
        assert (code, "--change" in said, "managed_zones" in said) == (1, True, True), said
        assert host.files() == before
        code, said = await host.set_up("--zone", "lab.example", "--trusted-proxy", "192.0.2.7", "--change")
        assert code == 0, said
        assert host.settings["protected_prefixes"] == ["10.20.0.0/16"]
        assert host.settings["managed_zones"] == ["corp.example", "lab.example"]
        assert host.settings["trusted_proxies"] == ["192.0.2.7/32"]
        async with fresh_database(cluster) as other:
            code, said = await host.set_up("--zone", "lab.example", "--database", other, "--change")
            assert (code, "restore into the other database" in said) == (1, True), said


@pytest.mark.slow
async def test_a_password_is_in_one_file_that_root_alone_reads(
    host: Host, cluster: str, tmp_path: Path
) -> None:
    async with fresh_database(cluster) as url:
        secret = url.replace("culvert@", "culvert:hunter2@")
        file = tmp_path / "url"
        file.write_text(secret)
        code, said = await host.set_up("--database-file", str(file))
        assert (code, "hunter2" in said) == (0, False), said
        holding = [name for name, content in host.files().items() if "hunter2" in content]
        assert holding == ["etc/culvert/secrets/culvert_database_url"]
        assert (host.root / holding[0]).stat().st_mode & 0o777 == 0o600
        drop_in = host.root / "etc/systemd/system/culvert-controller.service.d/setup.conf"
        assert "LoadCredential=culvert_database_url:" in drop_in.read_text()
        # The commands of a person find it beside the settings.
        found = load(host.root / SETTINGS).database_url
        assert found is not None
        assert found.get_secret_value() == secret


@pytest.mark.slow
async def test_a_database_is_claimed_once(cluster: str) -> None:
    async with fresh_database(cluster) as url:
        engine = create_engine(url)
        await upgrade(engine)
        await installation.claim(engine, "ab" * 16)
        await installation.claim(engine, "ab" * 16)
        with pytest.raises(installation.OtherCulvertError):
            await installation.claim(engine, "cd" * 16)
        await engine.dispose()
