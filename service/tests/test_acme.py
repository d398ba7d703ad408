"""The public certificate by ACME, from Pebble: issued, renewed, refused; and what a server may not do to a controller."""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acme import messages
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_lab.free_port import free_port
from culvert_service.acme import schedule
from culvert_service.acme.faults import AccountClosedError, AcmeFaultError
from culvert_service.acme.server import AcmeServer, finalized
from culvert_service.acme.service import _binding, _request
from culvert_service.config import Settings
from culvert_service.controller.database import open_database
from culvert_service.controller.lifecycle import Controller
from culvert_service.operation.doctor import examine
from culvert_service.operation.rest_client import call
from culvert_service.setup import answers, command
from culvert_service.setup.acme import AcmeFlags
from culvert_service.setup.acme import examine as examine_server
from culvert_service.setup.answers import Acme, AnswerError, Answers
from sqlalchemy import text

from .conftest import settings_in, until
from .pebble import Pebble, needs_pebble, pebble
from .test_public_certificate import Company, pem, shown

NAME = "vpn.corp.example"
DAY = datetime.timedelta(days=1)
BEGINS = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
EAB = {"culvert": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"}


def test_a_renewal_leaves_a_third_of_any_lifetime_for_faults() -> None:
    for days in (6, 90):
        for draw in (0.0, 1.0):
            renewal = schedule.renewal(BEGINS, BEGINS + days * DAY, draw)
            assert 0.6 < (renewal - BEGINS) / (days * DAY) < 0.67

    def suggested(day: float, issued_day: float = 0) -> float:
        moment = schedule.suggested_renewal(
            BEGINS + day * DAY, BEGINS, BEGINS + 6 * DAY, BEGINS + issued_day * DAY
        )
        return (moment - BEGINS) / DAY

    assert suggested(3) == 3
    # A server that says `at once`, as after a revocation, is asked once an hour; one that says `never` is not believed.
    assert suggested(-1, issued_day=2) == 2 + 1 / 24
    assert suggested(60) == 5


def test_attempts_get_rarer_and_heed_the_server() -> None:
    waits = [schedule.wait(n, is_refusal=True, wish_seconds=0, draw=0) for n in range(1, 40)]
    assert waits == sorted(waits)
    # Let's Encrypt: at most five failed validations of a name in an hour, the first one included.
    starts = [sum(waits[:n], datetime.timedelta()) for n in range(len(waits))]
    assert sum(start < datetime.timedelta(hours=1) for start in starts) <= 5
    assert waits[-1] == DAY / 2
    assert schedule.wait(1, is_refusal=False, wish_seconds=7200, draw=0) == datetime.timedelta(hours=2)
    assert schedule.wait(1, is_refusal=False, wish_seconds=1e12, draw=0) == 7 * DAY


def test_setup_names_what_acme_cannot_do() -> None:
    flags = command.Flags(
        NAME, ["corp.example"], ["none"], acme=AcmeFlags(wanted=True, contact="a@corp.example")
    )
    found = command._answers(flags, Answers("", ()), asks=False)
    assert (found.port, found.public_port) == (443, 443)
    assert found.settings(Path("/s"), any_host="[::]")["acme_contact"] == "mailto:a@corp.example"
    for wrong in (
        Answers(NAME, (), port=8443, public_port=8443, acme=Acme()),
        Answers(NAME, (), port=443, public_port=443, trusted_proxies=("192.0.2.1/32",), acme=Acme()),
    ):
        with pytest.raises(AnswerError, match=r"--port 443|reverse proxy"):
            answers.refuse_unreachable(wrong)
    # A port that is forwarded; files in place of it; another authority, whose terms are others.
    answers.refuse_unreachable(Answers(NAME, (), port=8443, public_port=443, acme=Acme()))
    agreed = Answers(NAME, ("corp.example",), port=443, public_port=443, acme=Acme(agrees=True))
    files = command.Flags(certificate=Path("/c"), key=Path("/k"))
    assert command._answers(files, agreed, asks=False).acme is None
    other = command.Flags(acme=AcmeFlags(directory="https://ca.corp.example/acme"))
    changed = command._answers(other, agreed, asks=False).acme
    assert changed is not None
    assert not changed.agrees


def settings_for(tmp_path: Path, database_url: str, server: Pebble, **fields: Any) -> Settings:
    return settings_in(
        tmp_path,
        database_url=database_url,
        public_rest_url=f"https://{NAME}",
        acme_directory=server.directory,
        acme_ca_file=server.ca_file,
        acme_terms_agreed=True,
        **fields,
    )


@pytest.mark.slow
@needs_pebble
async def test_controllers_of_one_database_share_a_certificate_and_renew_it(
    tmp_path: Path, database_url: str
) -> None:
    port = free_port()
    async with pebble(tmp_path / "pebble", port, seconds=20, nonces_refused_percent=25) as server:
        one = settings_for(tmp_path, database_url, server, controller_name="one")
        # The authority's connections all reach the second one, as through a load balancer.
        two = settings_for(
            tmp_path, database_url, server, controller_name="two", rest_listen=f"127.0.0.1:{port}"
        )
        async with AsyncExitStack() as stack:
            for settings in (one, two):
                database = await stack.enter_async_context(open_database(settings))
                await stack.enter_async_context(Controller(settings, database))
            browser = ssl.create_default_context(cadata=await server.root())

            async def certificate(settings: Settings) -> bytes:
                try:
                    return await shown(settings.rest_listen, browser, NAME)
                except ssl.SSLCertVerificationError:
                    return b""

            first = await until(lambda: certificate(one), bool)
            assert await until(lambda: certificate(two), bool) == first
            second = await until(lambda: certificate(two), lambda found: found not in (b"", first), 60)
            await until(lambda: certificate(one), lambda found: found == second)
            told = await call(one, "GET", "/controller")
            assert told["public_certificate_fault"] is None
            assert not told["own_certificate"]
            async with database() as session:
                row = (await session.execute(text("SELECT * FROM acme_certificates"))).one()
            assert b"PRIVATE KEY" not in b"".join(it for it in row if isinstance(it, bytes))
            assert row.challenge is None
    assert "renewalInfo" in (tmp_path / "pebble/log").read_text()


@pytest.mark.slow
@needs_pebble
async def test_a_failed_validation_is_told_and_not_repeated_at_once(
    tmp_path: Path, database_url: str
) -> None:
    # Nothing listens there, as behind a firewall.
    async with pebble(tmp_path / "pebble", free_port()) as server:
        settings = settings_for(tmp_path, database_url, server)
        async with open_database(settings) as database, Controller(settings, database):
            told = await until(
                lambda: call(settings, "GET", "/controller"), lambda it: it["public_certificate_fault"]
            )
            fault = told["public_certificate_fault"]
            # Let's Encrypt calls it `connection`.
            assert "(unauthorized). Remedy: TCP port 443 of the name must lead to this controller" in fault
            async with database() as session:
                row = (await session.execute(text("SELECT *, now() AS at FROM acme_certificates"))).one()
            assert row.failures == 1
            assert row.attempt_at - row.at > datetime.timedelta(minutes=4)
            assert row.challenge is None
            # Browsers get the certificate of Culvert's CA meanwhile.
            own = ssl.create_default_context(cafile=str(settings.state_dir / "infrastructure-ca.pem"))
            await shown(settings.rest_listen, own, NAME)
            found = [it async for it in examine(settings) if it.what == "public certificate"]
            assert "(unauthorized)" in found[0].wrong
            assert found[0].remedy


@pytest.mark.slow
@needs_pebble
async def test_an_account_is_bound_found_again_and_replaced_when_closed(tmp_path: Path) -> None:
    async with pebble(tmp_path / "pebble", free_port(), eab_keys=EAB, looks=False) as server:
        key = ec.generate_private_key(ec.SECP256R1())
        found, _ = await asyncio.to_thread(
            examine_server, Acme(server.directory, ca_file=str(server.ca_file)), None
        )
        assert "external account" in found.wrong
        ours = AcmeServer(server.directory, server.ca_file, key)
        await ours.connect()
        assert ours.needs_binding
        assert ours.terms
        with pytest.raises(AcmeFaultError, match=r"externalAccountRequired.*acme_eab_key_id"):
            await ours.register(None, True, None)
        (tmp_path / "key").write_text("no key\n")
        with pytest.raises(AcmeFaultError, match="no key in base64url"):
            _binding("culvert", tmp_path / "key")
        (tmp_path / "key").write_text(f"{EAB['culvert']}==\n")
        url = await ours.register("mailto:a@corp.example", True, _binding("culvert", tmp_path / "key"))
        assert await ours.register(None, True, _binding("culvert", tmp_path / "key")) == url
        again = AcmeServer(server.directory, server.ca_file, key, url)
        await again.connect()
        request = _request(ec.generate_private_key(ec.SECP256R1()), NAME)
        order = await again.order(request, "")
        [unproved] = again.unproved(order)
        await again.validate(unproved, 30)
        await again.finalize(order)
        # A process that has started anew gets the certificate of the order all the same.
        assert order.uri is not None
        assert await again.collect(finalized(str(order.uri)), 30)
        with pytest.raises(AcmeFaultError, match="404") as unknown:
            await again.collect(finalized(f"{order.uri}0"), 30)
        assert unknown.value.is_refusal
        with pytest.raises(AcmeFaultError, match="acme_profile") as refused:
            await again.order(request, "unknown")
        assert not isinstance(refused.value, AccountClosedError)
        closed = messages.RegistrationResource(uri=url, body=messages.Registration(status="deactivated"))
        await again._ask(again._connected().update_registration, closed)
        with pytest.raises(AccountClosedError, match="deactivated"):
            await again.order(request, "")


@asynccontextmanager
async def hostile(
    directory: Path, name: str, answers: Mapping[str, tuple[str, bytes]]
) -> AsyncGenerator[tuple[str, Path]]:
    """A server with these heads and bodies by path. Its origin, and the file of its CA."""
    company = Company()
    chain, key = company.issue([name])
    for file, content in (("chain", chain), ("key", key), ("ca", pem(company.root))):
        (directory / file).write_bytes(content)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(directory / "chain", directory / "key")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        head, body = answers[request.split()[1].decode()]
        writer.write(f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n".encode())
        writer.write(body)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}", directory / "ca"


async def registered(server: AcmeServer) -> str:
    await server.connect()
    return await server.register(None, True, None)


async def test_a_server_leads_a_controller_nowhere_and_floods_it_with_nothing(tmp_path: Path) -> None:
    limited = {"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many\nnew accounts"}
    paths: dict[str, tuple[str, bytes]] = {
        "/redirected": ("302 Found\r\nLocation: http://169.254.169.254/", b""),
        "/long": ("200 OK", b" " * (1 << 20)),
        "/deep": ("200 OK", b"[" * 100_000),
        "/html": ("502 Bad Gateway\r\nRetry-After: 60", b"<html>"),
        "/other": ("200 OK", b"{}"),
        "/nonce": ("200 OK\r\nReplay-Nonce: AAAA", b""),
        "/account": (
            "429 Too Many Requests\r\nRetry-After: 3600\r\nContent-Type: application/problem+json",
            json.dumps(limited).encode(),
        ),
    }
    async with hostile(tmp_path, "localhost", paths) as (origin, ca_file):
        directory = {
            "newNonce": f"{origin}/nonce",
            "newAccount": f"{origin}/account",
            "newOrder": f"{origin}/o",
        }
        paths["/dir"] = ("200 OK", json.dumps(directory).encode())
        paths["/away"] = ("200 OK", json.dumps(directory | {"newNonce": "https://10.0.0.1/"}).encode())

        async def fault(path: str, ca: Path | None = ca_file) -> AcmeFaultError:
            with pytest.raises(AcmeFaultError) as caught:
                await registered(AcmeServer(origin + path, ca, ec.generate_private_key(ec.SECP256R1())))
            assert "Remedy: " in str(caught.value)
            return caught.value

        assert "another address" in (await fault("/redirected")).why
        assert "too long" in (await fault("/long")).why
        assert "cannot be used" in (await fault("/deep")).why
        html = await fault("/html")
        assert "HTTP status 502" in html.why
        assert html.wait_seconds == 60
        assert not html.is_refusal
        assert "no directory" in (await fault("/other")).why
        assert "another host, 10.0.0.1" in (await fault("/away")).why
        often = await fault("/dir")
        assert often.why == f"{origin[8:]} says: too many new accounts (rateLimited)"
        assert often.is_refusal
        assert often.wait_seconds == 3600
        assert "not trusted" in (await fault("/dir", None)).why
        (tmp_path / "empty").touch()
        with pytest.raises(AcmeFaultError, match="holds no PEM certificate"):
            AcmeServer(f"{origin}/dir", tmp_path / "empty")
    assert "cannot be reached" in (await fault("/dir")).why
