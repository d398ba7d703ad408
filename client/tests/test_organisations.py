"""A person who works for two organisations: both at once, each with a controller of its own, over the real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Generator
from ipaddress import ip_address, ip_network
from pathlib import Path

import dns.message
import dns.rcode
import pytest
from culvert_client.core.client_events import PacketTrapped
from culvert_client.core.short_names import SEARCHED
from culvert_proto import CulvertError, Reason, agent_pb2, local_pb2

from .controller import CODE, Controller, serving
from .enrolment_server import accepts, enrolment_server
from .name_server import Records, from_records, name_server
from .pki import Authority
from .running import FIRST, Running, running
from .test_daemon import given, refused, why

WIKI, BETA = "wiki.corp.example", "wiki.beta.example"
RECORDS: Records = {
    (WIKI, "A"): ["10.20.0.10"],
    (BETA, "A"): ["10.30.0.10"],
    (BETA, "TXT"): ['"ipsec-tunneling:yes"'],
    # A name of one that leads into the other's network.
    ("trap.beta.example", "A"): ["10.20.0.10"],
}
UP, GONE = local_pb2.TUNNEL_STATE_UP, local_pb2.STATE_OFFLINE


class Organisation:
    def __init__(self, directory: Path, controller: Controller) -> None:
        directory.mkdir()
        self.directory, self.controller = directory, controller
        self.infrastructure, self.devices = Authority("infrastructure"), Authority("devices")
        self.name = ""

    def serving(self, port: int = 0) -> contextlib.AbstractAsyncContextManager[Controller]:
        return serving(self.controller, self.infrastructure, self.devices, port)

    @contextlib.contextmanager
    def invitation(self) -> Generator[str]:
        """The link."""
        answer = accepts(self.infrastructure, self.devices, f"127.0.0.1:{self.controller.port}")
        with enrolment_server(self.directory, self.infrastructure, answer) as server:
            self.name = f"127.0.0.1:{server.port}"
            yield server.link(self.infrastructure)

    async def enroll(self, daemon: Running) -> local_pb2.EnrollResponse:
        with self.invitation() as link:
            return await daemon.local.Enroll(local_pb2.EnrollRequest(link=link, device_name="laptop"))

    def of(self, status: local_pb2.Status) -> local_pb2.Organisation:
        return next((it for it in status.organisations if it.name == self.name), local_pb2.Organisation())

    async def prove(self, daemon: Running) -> None:
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE, organisation=self.name))


def beta() -> Controller:
    made = Controller()
    made.profile = agent_pb2.Profile(
        user="bea",
        device_name="laptop",
        managed_zones=["beta.example"],
        protected_prefixes=["10.30.0.0/16"],
        gateways=[agent_pb2.Gateway(name="gw-berlin", address="203.0.113.2", online=True)],
        resources=[agent_pb2.Resource(name="wiki", fqdn=BETA, addresses=["10.30.0.10"])],
    )
    made.prefixes, made.inner_address, made.outer_address = ["10.30.0.10/32"], "10.98.0.2", "203.0.113.2"
    made.first_spi = 5000
    return made


class Two:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.acme = Organisation(directory / "acme", Controller())
        self.beta = Organisation(directory / "beta", beta())

    @contextlib.asynccontextmanager
    async def daemon(self) -> AsyncGenerator[Running]:
        async with (
            name_server(from_records(RECORDS)) as (upstream, _),
            running(self.directory, upstream) as daemon,
        ):
            yield daemon

    @contextlib.asynccontextmanager
    async def enrolled(self) -> AsyncGenerator[Running]:
        """With both, their codes proven."""
        async with self.acme.serving(), self.beta.serving(), self.daemon() as daemon:
            await self.acme.enroll(daemon)
            await self.beta.enroll(daemon)
            for it in (self.acme, self.beta):
                await daemon.until(lambda status, it=it: it.of(status).state == local_pb2.STATE_NEEDS_CODE)
                await it.prove(daemon)
            yield daemon


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return Two(tmp_path)


def blocked(daemon: Running) -> set[str]:
    return set(map(str, daemon.datapath.applied[-1].blocked))


def carried(daemon: Running) -> set[str]:
    return {str(sas.tunnel.fqdn) for sas in daemon.datapath.applied[-1].tunnels}


@pytest.mark.slow
async def test_names_of_both_open_at_once_and_one_goes_on_without_the_other(two: Two) -> None:
    async with two.acme.serving() as acme, two.daemon() as daemon:
        alone = await two.acme.enroll(daemon)
        assert alone.organisation == ""
        await daemon.until(lambda it: it.state == local_pb2.STATE_NEEDS_CODE)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        assert given(await daemon.ask(WIKI)) == {"10.20.0.10"}
        assert not (await daemon.status()).organisations
        sas = daemon.datapath.applied[-1].tunnels
        async with two.beta.serving() as other:
            enrolled = await two.beta.enroll(daemon)
            assert enrolled.organisation == two.beta.name
            await daemon.until(lambda it: two.beta.of(it).state == local_pb2.STATE_NEEDS_CODE)
            # The earlier organisation has not noticed.
            assert daemon.datapath.applied[-1].tunnels == sas
            assert blocked(daemon) == {"10.20.0.0/16", "10.30.0.0/16"}
            # A code goes to its own controller alone.
            unclear = await refused(daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE)))
            assert unclear.reason is Reason.ORGANISATION_UNCLEAR
            assert "code is needed" in why(await daemon.ask(BETA))
            await two.beta.prove(daemon)
            assert given(await daemon.ask(BETA)) == {"10.30.0.10"}
            assert carried(daemon) == {WIKI, BETA}
            # Both controllers give their first tunnel this id.
            assert (acme.open, other.open) == ({"t1": 1}, {"t1": 1})
            assert (acme.calls, other.calls) == ([f"open {WIKI}"], [f"open {BETA}"] * 2)
            status = await daemon.status()
            assert [(it.fqdn, it.organisation) for it in status.tunnels] == [
                (BETA, two.beta.name),
                (WIKI, two.acme.name),
            ]
            assert given(await daemon.ask("trap.beta.example")) == set()
            both_call_it_so = await refused(daemon.local.OpenTunnel(local_pb2.OpenTunnelRequest(name="wiki")))
            assert both_call_it_so.reason is Reason.ORGANISATION_UNCLEAR
        lost = await daemon.until(lambda it: two.beta.of(it).state == GONE)
        assert (lost.state, two.acme.of(lost).state) == (local_pb2.STATE_CONNECTED,) * 2
        assert not two.acme.of(lost).HasField("last_error")
        assert [it.state for it in lost.tunnels] == [UP, UP]
        await daemon.local.CloseTunnel(local_pb2.CloseTunnelRequest(name=WIKI))
        daemon.datapath.trapped(PacketTrapped(ip_address("10.20.0.10")))
        acme_again = await daemon.local.OpenTunnel(local_pb2.OpenTunnelRequest(name=WIKI))
        assert acme_again.tunnel.organisation == two.acme.name
        assert acme.open == {"t2": 1}


@pytest.mark.slow
async def test_both_organisations_survive_a_restart(two: Two) -> None:
    async with two.enrolled():
        pass
    async with two.acme.serving(two.acme.controller.port), two.daemon() as daemon:
        assert [str(it) for it in daemon.datapath.applied[-1].blocked]
        assert blocked(daemon) == {"10.20.0.0/16", "10.30.0.0/16"}
        await daemon.until(lambda it: two.acme.of(it).state == local_pb2.STATE_READY)
        assert given(await daemon.ask(WIKI)) == {"10.20.0.10"}
        assert "cannot be reached" in why(await daemon.ask(BETA))
        async with two.beta.serving(two.beta.controller.port) as other:
            other.refusal = CulvertError(Reason.DEVICE_REVOKED, device="laptop")
            await daemon.until(lambda it: two.beta.of(it).state == local_pb2.STATE_READY)
            assert "revoked" in why(await daemon.ask(BETA))
            assert carried(daemon) == {WIKI}


async def test_leaving_an_organisation_keeps_the_others_tunnels(two: Two) -> None:
    async with two.enrolled() as daemon:
        for name in (WIKI, BETA):
            await daemon.ask(name)
        kept = [sas for sas in daemon.datapath.applied[-1].tunnels if sas.tunnel.fqdn == BETA]
        unclear = await refused(daemon.local.Leave(local_pb2.LeaveRequest()))
        assert unclear.reason is Reason.ORGANISATION_UNCLEAR
        unknown = await refused(daemon.local.Leave(local_pb2.LeaveRequest(organisation="nobody")))
        assert unknown.reason is Reason.NOT_FOUND
        left = await daemon.local.Leave(local_pb2.LeaveRequest(organisation=two.acme.name))
        assert left.organisation == two.acme.name
        assert two.acme.controller.open == {}
        assert two.acme.controller.calls[-1] == "leave"
        assert "leave" not in two.beta.controller.calls
        assert list(daemon.datapath.applied[-1].tunnels) == kept
        assert blocked(daemon) == {"10.30.0.0/16"}
        status = await daemon.status()
        assert (status.user, list(status.organisations)) == ("bea", [])
        assert [it.name for it in (daemon.settings.state_dir / "organisations").iterdir()] == ["2"]
        async for answer in daemon.local.WatchActivity(local_pb2.WatchActivityRequest()):
            assert answer.activity.fqdn != WIKI
        await daemon.local.Leave(local_pb2.LeaveRequest())
        assert (await daemon.status()).state == local_pb2.STATE_NOT_ENROLLED
        assert daemon.datapath.applied[-1].blocked == frozenset()
        # And it can be enrolled again.
        await two.beta.enroll(daemon)
        await daemon.until(lambda it: it.user == "bea")
        # The device of the enrolment before is not left behind.
        await two.beta.enroll(daemon)
        assert two.beta.controller.calls.count("leave") == 2


async def test_leave_is_finished_after_its_caller_has_gone(two: Two) -> None:
    async with two.enrolled() as daemon:
        await daemon.ask(WIKI)
        asking = asyncio.ensure_future(daemon.local.Leave(local_pb2.LeaveRequest(organisation=two.acme.name)))
        await daemon.until(lambda it: not it.tunnels)
        asking.cancel()
        await daemon.until(lambda it: it.user == "bea" and not it.organisations)
        assert blocked(daemon) == {"10.30.0.0/16"}


async def test_an_organisation_without_identity_is_blocked_until_leave(two: Two) -> None:
    async with two.enrolled() as daemon:
        pass
    (daemon.settings.state_dir / FIRST / "identity/device.key").unlink()
    async with two.beta.serving(two.beta.controller.port), two.daemon() as daemon:
        status = await daemon.until(lambda it: two.beta.of(it).state == local_pb2.STATE_READY)
        assert [it.name for it in status.organisations] == ["1", two.beta.name]
        assert blocked(daemon) == {"10.20.0.0/16", "10.30.0.0/16"}
        assert given(await daemon.ask(BETA)) == {"10.30.0.10"}
        await daemon.local.Pause(local_pb2.PauseRequest(until=int(time.time()) + 60))
        await daemon.local.Resume(local_pb2.ResumeRequest())
        await daemon.local.Leave(local_pb2.LeaveRequest(organisation="1"))
        assert blocked(daemon) == {"10.30.0.0/16"}


async def test_a_colliding_claim_is_refused_until_the_other_has_left(two: Two) -> None:
    two.beta.controller.profile.managed_zones.append("hr.corp.example")
    async with two.acme.serving() as acme, two.beta.serving(), two.daemon() as daemon:
        await two.acme.enroll(daemon)
        await daemon.until(lambda it: it.state == local_pb2.STATE_NEEDS_CODE)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        await daemon.ask(WIKI)
        before = daemon.datapath.applied[-1]
        await two.beta.enroll(daemon)
        collides = await daemon.until(lambda it: two.beta.of(it).HasField("last_error"))
        error = CulvertError.from_proto(two.beta.of(collides).last_error)
        assert error.reason is Reason.ORGANISATIONS_COLLIDE
        assert "hr.corp.example" in error.message
        assert two.acme.name in error.message
        assert daemon.datapath.applied[-1] == before
        assert two.acme.of(collides).state == local_pb2.STATE_CONNECTED
        assert acme.open == {"t1": 1}
        await daemon.local.Leave(local_pb2.LeaveRequest(organisation=two.acme.name))
        await daemon.until(lambda it: it.state == local_pb2.STATE_NEEDS_CODE and it.user == "bea")
        assert blocked(daemon) == {"10.30.0.0/16"}


async def test_a_tunnel_that_would_take_the_others_place_is_given_back(two: Two) -> None:
    async with two.enrolled() as daemon:
        await daemon.ask(WIKI)
        two.beta.controller.inner_address = two.acme.controller.inner_address
        error = await refused(daemon.local.OpenTunnel(local_pb2.OpenTunnelRequest(name=BETA)))
        assert error.reason is Reason.ORGANISATIONS_COLLIDE
        # The client does not use the tunnel, so the gateway does not keep it.
        assert two.beta.controller.open == {}
        assert carried(daemon) == {WIKI}


async def test_a_refused_apply_leaves_the_other_organisation_alone(two: Two) -> None:
    async with two.acme.serving(), two.beta.serving(), two.daemon() as daemon:
        await two.acme.enroll(daemon)
        await daemon.until(lambda it: it.state == local_pb2.STATE_NEEDS_CODE)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        await daemon.ask(WIKI)
        good = daemon.datapath.applied[-1]
        daemon.datapath.refuses = lambda desired: ip_network("10.30.0.0/16") in desired.blocked
        await two.beta.enroll(daemon)
        status = await daemon.until(lambda it: two.beta.of(it).HasField("last_error"))
        assert two.beta.of(status).last_error.reason == Reason.DATAPATH_FAILED
        assert not two.acme.of(status).HasField("last_error")
        # Half of it may have been done.
        assert daemon.datapath.applied[-1] == good
        await daemon.local.CloseTunnel(local_pb2.CloseTunnelRequest(name=WIKI))
        assert given(await daemon.ask(WIKI)) == {"10.20.0.10"}
        assert carried(daemon) == {WIKI}


async def test_a_name_without_a_dot_is_the_first_ones_and_no_other_zone_is_asked(two: Two) -> None:
    resources = two.beta.controller.profile.resources
    resources.add(name="notes", fqdn="notes.beta.example", addresses=["10.30.0.11"])
    resources.add(name="all", fqdn="*.beta.example", addresses=["10.30.0.12"])
    two.beta.controller.prefixes = ["10.30.0.0/24"]
    records = RECORDS | {("notes.beta.example", "A"): ["10.30.0.11"], ("word", "A"): ["203.0.113.80"]}
    async with (
        name_server(from_records(records)) as (upstream, asked),
        two.acme.serving() as acme,
        two.beta.serving() as other,
        running(two.directory, upstream) as daemon,
    ):
        await two.acme.enroll(daemon)
        await two.beta.enroll(daemon)
        for it in (two.acme, two.beta):
            await daemon.until(lambda status, it=it: it.of(status).state == local_pb2.STATE_NEEDS_CODE)
            await it.prove(daemon)
        for name, address, full in (
            ("wiki", "10.20.0.10", WIKI),
            ("NOTES", "10.30.0.11", "notes.beta.example"),
            (f"Wiki.{SEARCHED}", "10.20.0.10", WIKI),
        ):
            answer = await daemon.ask(name)
            assert given(answer) == {address}
            # The question is the asker's, letter by letter.
            assert [str(it.name) for it in answer.question] == [f"{name}."]
            assert str(answer.answer[0]) == f"{name}. {answer.answer[0].ttl} IN CNAME {full}."
        assert (acme.calls, other.calls) == ([f"open {WIKI}"], ["open notes.beta.example"])
        assert given(await daemon.ask("word")) == {"203.0.113.80"}
        assert (await daemon.ask(f"word.{SEARCHED}")).rcode() == dns.rcode.NXDOMAIN
        names = {str(dns.message.from_wire(it).question[0].name) for it in asked}
        # The last one is how a network's NAT64 is found.
        assert names == {f"{WIKI}.", "notes.beta.example.", "word.", "ipv4only.arpa."}
