"""Public networks that a controller wants to carry: none is carried before a person agrees, and an answer is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from culvert_client.controller.messages import check_claims
from culvert_client.core.consent import Consent, already_agreed
from culvert_client.core.grant import Network
from culvert_client.core.profile import Profile
from culvert_client.state_dir import StateDir
from culvert_proto import CulvertError, Reason, agent_pb2, local_pb2

from .controller import CODE, Controller
from .name_server import from_records, name_server
from .running import FIRST, Running, running
from .test_daemon import RECORDS, Lab, refused

PRIVATE, PUBLIC, WIDER = "10.20.0.0/16", "8.8.8.0/24", "9.9.9.0/24"
WIKI = local_pb2.OpenTunnelRequest(name="wiki")


def nets(*texts: str) -> tuple[Network, ...]:
    return tuple(map(ip_network, texts))


def test_an_answer_covers_parts_and_a_no_to_a_part_ends_the_yes() -> None:
    profile = Profile(protected_prefixes=nets(PRIVATE, "8.8.8.0/25", "8.8.8.128/25", WIDER))
    agreed = Consent().with_answer(nets(PUBLIC), agreed=True)
    shown = agreed.apply(profile)
    assert (shown.protected_prefixes, shown.awaiting) == (
        nets(PRIVATE, "8.8.8.0/25", "8.8.8.128/25"),
        nets(WIDER),
    )
    assert agreed.apply(shown) == shown
    part = agreed.with_answer(nets("8.8.8.128/25"), agreed=False).apply(shown)
    assert (part.protected_prefixes, part.declined) == (nets(PRIVATE), nets("8.8.8.128/25"))
    assert set(part.awaiting) == set(nets("8.8.8.0/25", WIDER))
    again = agreed.with_answer(nets(PUBLIC), agreed=False).with_answer(nets(PUBLIC), agreed=True)
    assert again == agreed


def test_a_private_prefix_needs_no_answer_and_a_partly_public_one_does() -> None:
    nobody = Consent()
    for prefix in (PRIVATE, "192.168.0.0/16", "100.64.0.0/10", "fd00::/8", "2001:db8::/48", "203.0.113.0/24"):
        assert nobody.permits(ip_network(prefix)), prefix
    for prefix in (PUBLIC, "172.0.0.0/8", "192.0.0.0/8", "2001::/16", "2606:4700::/32"):
        assert not nobody.permits(ip_network(prefix)), prefix


def test_answers_are_read_back_and_unreadable_ones_are_an_error(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    assert state.consent() is None
    given = Consent(frozenset(nets(PUBLIC, "2606:4700::/32")), frozenset(nets(WIDER)))
    state.keep_consent(given)
    assert StateDir(tmp_path).consent() == given
    for garbage in (
        b"",
        b"[]",
        b"\xff",
        b'{"agreed": 1, "declined": []}',
        b'{"agreed": ["x"], "declined": []}',
    ):
        state.keep_consent(given)
        (tmp_path / "consent.json").write_bytes(garbage)
        assert state.consent() == given
        (tmp_path / "consent.json.copy").write_bytes(garbage)
        with pytest.raises(CulvertError, match=r"consent\.json"):
            state.consent()


class Offer:
    def __init__(self, directory: Path) -> None:
        self.lab = Lab(directory)
        self.controller: Controller = self.lab.controller
        self.controller.profile.protected_prefixes.append(PUBLIC)

    def widen(self) -> None:
        self.controller.profile.protected_prefixes.append(WIDER)
        self.controller.tell(agent_pb2.WatchResponse(profile=self.controller.profile))


@pytest.fixture
def offer(tmp_path: Path) -> Offer:
    return Offer(tmp_path)


@pytest.fixture
async def enrolled(offer: Offer) -> AsyncGenerator[Running]:
    async with offer.lab.serving(), offer.lab.daemon() as daemon:
        answer = await offer.lab.enroll(daemon)
        assert (list(answer.zones), list(answer.prefixes)) == (["corp.example"], [PRIVATE])
        assert list(answer.awaiting_prefixes) == [PUBLIC]
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        yield daemon


async def decide(daemon: Running, *prefixes: str, agreed: bool) -> None:
    await daemon.local.AnswerClaims(local_pb2.AnswerClaimsRequest(prefixes=prefixes, agreed=agreed))


def blocked(daemon: Running) -> set[str]:
    return set(map(str, daemon.datapath.applied[-1].blocked))


async def test_a_public_network_waits_for_a_yes_while_agreed_ones_work(
    offer: Offer, enrolled: Running
) -> None:
    assert blocked(enrolled) == {PRIVATE}
    assert list((await enrolled.status()).awaiting_prefixes) == [PUBLIC]
    assert (await enrolled.local.OpenTunnel(WIKI)).tunnel.state == local_pb2.TUNNEL_STATE_UP
    await decide(enrolled, PUBLIC, agreed=True)
    await enrolled.until(lambda status: not status.awaiting_prefixes)
    assert blocked(enrolled) == {PRIVATE, PUBLIC}
    offer.widen()
    status = await enrolled.until(lambda status: list(status.awaiting_prefixes) == [WIDER])
    assert blocked(enrolled) == {PRIVATE, PUBLIC}
    assert [it.state for it in status.tunnels] == [local_pb2.TUNNEL_STATE_UP]


async def test_a_tunnel_to_a_network_without_a_yes_is_refused_and_closed(
    offer: Offer, enrolled: Running
) -> None:
    for prefixes, inner in ((["8.8.8.8/32"], "10.99.0.2"), (["10.20.0.10/32"], "8.8.4.4")):
        offer.controller.prefixes, offer.controller.inner_address = prefixes, inner
        error = await refused(enrolled.local.OpenTunnel(WIKI))
        assert error.reason is Reason.CONSENT_NEEDED
        assert "culvert agree" in error.shell
        assert offer.controller.open == {}
    offer.controller.prefixes, offer.controller.inner_address = ["8.8.8.8/32"], "10.99.0.2"
    await decide(enrolled, PUBLIC, agreed=True)
    assert not (await enrolled.status()).HasField("last_error")
    assert (await enrolled.local.OpenTunnel(WIKI)).tunnel.state == local_pb2.TUNNEL_STATE_UP
    # A later no closes the tunnels that the yes permitted.
    await decide(enrolled, PUBLIC, agreed=False)
    await enrolled.until(lambda status: not status.tunnels)
    assert blocked(enrolled) == {PRIVATE}


async def test_declining_a_network_closes_a_tunnel_with_an_address_in_it(
    offer: Offer, enrolled: Running
) -> None:
    offer.controller.prefixes, offer.controller.inner_address = ["10.20.0.10/32"], "8.8.4.4"
    await decide(enrolled, "8.8.4.0/24", agreed=True)
    assert (await enrolled.local.OpenTunnel(WIKI)).tunnel.state == local_pb2.TUNNEL_STATE_UP
    await decide(enrolled, "8.8.4.0/24", agreed=False)
    await enrolled.until(lambda status: not status.tunnels)


async def test_an_answer_during_the_check_of_another_is_kept(
    enrolled: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await decide(enrolled, PUBLIC, agreed=True)
    checking, checked = asyncio.Event(), asyncio.Event()

    async def held_check(*arguments: Any) -> None:
        checking.set()
        await checked.wait()
        await check_claims(*arguments)

    monkeypatch.setattr("culvert_client.daemon.organisation.check_claims", held_check)
    async with asyncio.TaskGroup() as answers:
        answers.create_task(decide(enrolled, WIDER, agreed=True))
        await checking.wait()
        await decide(enrolled, PUBLIC, agreed=False)
        checked.set()
    await enrolled.until(lambda status: list(status.declined_prefixes) == [PUBLIC])
    assert blocked(enrolled) == {PRIVATE}


async def test_an_answer_is_kept_across_a_restart(offer: Offer) -> None:
    async with offer.lab.serving(), offer.lab.daemon() as daemon:
        await offer.lab.enroll(daemon)
        offer.widen()
        await daemon.until(lambda status: len(status.awaiting_prefixes) == 2)
        await decide(daemon, PUBLIC, agreed=True)
        await decide(daemon, WIDER, agreed=False)
    async with offer.lab.daemon() as daemon:
        assert blocked(daemon) == {PRIVATE, PUBLIC}
        status = await daemon.status()
        assert (list(status.awaiting_prefixes), list(status.declined_prefixes)) == ([], [WIDER])
        assert list(status.agreed_prefixes) == [PUBLIC]


async def test_an_answer_that_would_break_a_rule_changes_nothing(enrolled: Running) -> None:
    for prefixes, reason in (
        (["0.0.0.0/0"], Reason.CONTROLLER_INVALID),
        (["11.0.0.0/8", "12.0.0.0/8", "13.0.0.0/8"], Reason.CONTROLLER_INVALID),
        (["8.8.8.8/24"], Reason.REQUEST_INVALID),
    ):
        request = local_pb2.AnswerClaimsRequest(prefixes=prefixes, agreed=True)
        assert (await refused(enrolled.local.AnswerClaims(request))).reason is reason
    assert list((await enrolled.status()).awaiting_prefixes) == [PUBLIC]


async def test_roots_settings_permit_public_networks_without_a_question(offer: Offer, tmp_path: Path) -> None:
    async with (
        offer.lab.serving(),
        name_server(from_records(RECORDS)) as (upstream, _),
        running(tmp_path, upstream, public_prefixes=nets("8.0.0.0/8")) as daemon,
    ):
        answer = await offer.lab.enroll(daemon)
        assert (list(answer.awaiting_prefixes), set(answer.prefixes)) == ([], {PRIVATE, PUBLIC})
        assert blocked(daemon) == {PRIVATE, PUBLIC}


async def test_an_enrolment_without_a_file_of_answers_keeps_its_networks(offer: Offer) -> None:
    async with offer.lab.serving(), offer.lab.daemon() as daemon:
        await offer.lab.enroll(daemon)
    for name in ("consent.json", "consent.json.copy"):
        (daemon.settings.state_dir / FIRST / name).unlink()
    async with offer.lab.serving(offer.controller.port), offer.lab.daemon() as daemon:
        assert blocked(daemon) == {PRIVATE, PUBLIC}
        await daemon.until(lambda status: status.state == local_pb2.STATE_NEEDS_CODE)
        offer.widen()
        await daemon.until(lambda status: list(status.awaiting_prefixes) == [WIDER])
        assert blocked(daemon) == {PRIVATE, PUBLIC}
    assert already_agreed(Profile(protected_prefixes=nets(PRIVATE))) == Consent()


def test_the_refusal_of_a_tunnel_names_the_networks_without_a_yes() -> None:
    from .granted import tunnel

    with pytest.raises(CulvertError) as caught:
        Consent().check(tunnel(prefix="8.8.8.8/32"))
    assert "8.8.8.8/32" in caught.value.message
