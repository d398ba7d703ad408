"""Enrolment against real TLS servers: nothing secret reaches one that is not the invitation's."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import socket
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_client.controller.clock import clock_ahead
from culvert_client.controller.enrolment import Enrolment, enrol, show_invitation
from culvert_client.controller.trust import trust
from culvert_proto import CulvertError, Reason
from culvert_proto.invitation_link import parse_invitation

from .enrolment_server import RECOVERY_CODES, TOKEN, TOTP_URI, accepts, enrolment_server, refuses
from .pki import Authority


async def enrol_with(link: str) -> Enrolment:
    return await enrol(
        parse_invitation(link), ec.generate_private_key(ec.SECP256R1()), device_name="laptop", owner=1000
    )


async def test_the_key_is_made_here_and_certified(tmp_path: Path) -> None:
    ours, devices = Authority("ours"), Authority("devices")
    with enrolment_server(tmp_path, ours, accepts(ours, devices, "127.0.0.1:8444")) as server:
        enrolment = await enrol_with(server.link(ours))
    identity = enrolment.identity
    key = serialization.load_pem_private_key(identity.key_pem, None)
    assert x509.load_pem_x509_certificate(identity.certificate_pem).public_key() == key.public_key()
    assert (identity.user, identity.owner, identity.agent_address) == ("alice", 1000, "127.0.0.1:8444")
    assert enrolment.totp_uri == TOTP_URI
    assert enrolment.response().recovery_codes == RECOVERY_CODES
    assert RECOVERY_CODES[0] not in repr(enrolment)
    assert "PRIVATE" not in str(server.bodies)
    assert TOTP_URI not in repr(enrolment)


async def test_an_invitation_says_for_whom_it_is_before_it_is_used(tmp_path: Path) -> None:
    ours = Authority("ours")
    shown: dict[str, object] = {"user": "alice", "user_display_name": "Alice Liddell", "expired": False}
    with enrolment_server(tmp_path, ours, lambda _: (200, shown)) as server:
        answer = await show_invitation(parse_invitation(server.link(ours)))
        assert server.bodies == [{"token": TOKEN}]
        shown["expired"] = True
        with pytest.raises(CulvertError) as refused:
            await show_invitation(parse_invitation(server.link(ours)))
        assert refused.value.reason is Reason.INVITATION_INVALID
        # Used before, perhaps by this computer, whose answer was lost.
        shown |= {"expired": False, "used_at": "2026-03-01T08:00:00Z"}
        with pytest.raises(CulvertError) as refused:
            await show_invitation(parse_invitation(server.link(ours)))
        assert refused.value.reason is Reason.INVITATION_INVALID
        assert (await show_invitation(parse_invitation(server.link(ours)), repeats=True)).user == "alice"
    assert (answer.user, answer.user_display_name) == ("alice", "Alice Liddell")
    missing = refuses(CulvertError(Reason.NOT_FOUND, what="The page"))
    with enrolment_server(tmp_path, ours, missing) as server:
        assert not (await show_invitation(parse_invitation(server.link(ours)))).user
    with enrolment_server(tmp_path, Authority("theirs"), missing) as server:
        with pytest.raises(CulvertError) as refused:
            await show_invitation(parse_invitation(server.link(ours)))
        assert server.bodies == []


async def test_the_first_of_the_controllers_addresses_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, devices = Authority("ours"), Authority("devices")
    found = socket.getaddrinfo

    def lookup(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        hosts = ("127.0.0.2", "127.0.0.1") if host == "vpn.example" else (host,)
        return [one for it in hosts for one in found(it, port, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            enrolment_server(tmp_path, ours, accepts(ours, devices, "127.0.0.1:8444"))
        )
        # With its queue full, a listener answers no attempt to connect.
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.2", server.port))
        listener.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(("127.0.0.2", server.port))
        _, der = await trust(parse_invitation(server.link(ours)), "vpn.example")
    assert hashlib.sha256(der).hexdigest() == ours.fingerprint


async def test_behind_a_translator_the_certificate_is_still_the_controllers(tmp_path: Path) -> None:
    """The link names an IPv4 address that this network reaches under another one (RFC 6052)."""
    ours, devices, named = Authority("ours"), Authority("devices"), "192.0.2.7"
    asked: list[str] = []

    def reach(host: str) -> str:
        asked.append(host)
        return "127.0.0.1"

    with enrolment_server(tmp_path, ours, accepts(ours, devices, "x:1"), address=named) as server:
        invitation = parse_invitation(server.link(ours))
        enrolled = await enrol(
            invitation, ec.generate_private_key(ec.SECP256R1()), device_name="laptop", owner=1000, reach=reach
        )
        assert await clock_ahead(enrolled.identity.controller, enrolled.identity.ca_pem, reach) in (-1, 0, 1)
    assert asked == [named, named]
    with enrolment_server(tmp_path, ours, accepts(ours, devices, "x:1")) as server:
        server.address = named
        invitation = parse_invitation(server.link(ours))
        with pytest.raises(CulvertError) as refused:
            await enrol(
                invitation,
                ec.generate_private_key(ec.SECP256R1()),
                device_name="laptop",
                owner=1000,
                reach=reach,
            )
        assert server.bodies == []
    assert refused.value.reason is Reason.CONTROLLER_UNTRUSTED


@pytest.mark.parametrize(("begins", "lifetime"), [(-2, -1), (1, 2)])
@pytest.mark.parametrize(
    ("ahead", "expected"), [(0, Reason.CONTROLLER_CERTIFICATE_EXPIRED), (7200, Reason.CLOCK_WRONG)]
)
async def test_a_wrong_clock_is_not_called_a_wrong_controller(
    tmp_path: Path, begins: int, lifetime: int, ahead: int, expected: Reason
) -> None:
    ours = Authority("ours")
    ours.begins, ours.lifetime = datetime.timedelta(hours=begins), datetime.timedelta(hours=lifetime)
    with enrolment_server(tmp_path, ours, accepts(ours, ours, "x:1"), ahead=ahead) as server:
        with pytest.raises(CulvertError) as refused:
            await enrol_with(server.link(ours))
        # The invitation is as good as before.
        assert server.bodies == []
    assert refused.value.reason is expected


async def test_a_server_of_another_ca_is_refused_before_the_token_is_sent(tmp_path: Path) -> None:
    ours, theirs = Authority("ours"), Authority("theirs")
    with enrolment_server(tmp_path, theirs, accepts(theirs, theirs, "x:1")) as server:
        with pytest.raises(CulvertError) as refused:
            await enrol_with(server.link(ours))
        assert server.bodies == []
    assert refused.value.reason is Reason.CONTROLLER_UNTRUSTED
    assert TOKEN not in str(refused.value)


async def test_a_server_without_the_cas_key_never_gets_the_token(
    tmp_path: Path,
) -> None:
    ours, theirs = Authority("ours"), Authority("ours")
    with enrolment_server(tmp_path, theirs, accepts(theirs, theirs, "x:1"), shown=ours) as server:
        with pytest.raises(CulvertError) as refused:
            await enrol_with(server.link(ours))
        assert server.bodies == []
    assert refused.value.reason is Reason.CONTROLLER_UNTRUSTED


async def test_an_answer_with_another_ca_is_refused(tmp_path: Path) -> None:
    ours, theirs = Authority("ours"), Authority("theirs")
    with (
        enrolment_server(tmp_path, ours, accepts(theirs, theirs, "x:1")) as server,
        pytest.raises(CulvertError),
    ):
        await enrol_with(server.link(ours))


async def test_a_certificate_for_another_key_is_refused(tmp_path: Path) -> None:
    ours = Authority("ours")
    foreign, _ = ours.issue("foreign")

    def answer(body: dict[str, str]) -> tuple[int, dict[str, str]]:
        status, document = accepts(ours, ours, "x:1")(body)
        return status, document | {"certificate_pem": foreign.decode()}

    with enrolment_server(tmp_path, ours, answer) as server, pytest.raises(CulvertError):
        await enrol_with(server.link(ours))


async def test_the_controllers_refusal_arrives_with_its_words(tmp_path: Path) -> None:
    ours = Authority("ours")
    refusal = refuses(CulvertError(Reason.RATE_LIMITED, seconds=40))
    with enrolment_server(tmp_path, ours, refusal) as server, pytest.raises(CulvertError) as refused:
        await enrol_with(server.link(ours))
    assert refused.value.reason is Reason.RATE_LIMITED
    assert refused.value.remedy == "Wait 40 s and try again."
    # A client translates the remedy with these fields.
    assert refused.value.fields == {"seconds": "40"}


@pytest.mark.parametrize("fields", [None, [], "x", {"seconds": 40}, {"else": "x"}])
async def test_a_refusal_without_its_fields_keeps_its_words(tmp_path: Path, fields: Any) -> None:
    ours = Authority("ours")
    said = {"reason": "RATE_LIMITED", "detail": "Too many.", "remedy": "Wait.", "fields": fields}
    with (
        enrolment_server(tmp_path, ours, lambda _: (429, said)) as server,
        pytest.raises(CulvertError) as refused,
    ):
        await enrol_with(server.link(ours))
    assert (refused.value.message, refused.value.remedy) == ("Too many.", "Wait.")


@pytest.mark.parametrize("document", [[], "x", {"certificate_pem": 7}])
async def test_an_invalid_enrolment_answer_is_an_error_with_a_remedy(tmp_path: Path, document: Any) -> None:
    ours = Authority("ours")
    with (
        enrolment_server(tmp_path, ours, lambda _: (200, document)) as server,
        pytest.raises(CulvertError) as refused,
    ):
        await enrol_with(server.link(ours))
    assert refused.value.reason is Reason.INTERNAL
    assert refused.value.remedy


async def test_a_controller_that_is_down_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(CulvertError) as refused:
        await enrol_with(f"culvert://enroll?controller=https://127.0.0.1:{port}&token=t&ca=sha256:{'0' * 64}")
    assert refused.value.reason is Reason.CONTROLLER_UNREACHABLE
