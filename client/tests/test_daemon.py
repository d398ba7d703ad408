"""The daemon over its real sockets: DNS, agent API with client certificates, local API."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Generator
from ipaddress import ip_address
from pathlib import Path
from typing import NoReturn, cast

import dns.edns
import dns.message
import dns.rcode
import grpc
import grpc.aio
import pytest
from culvert_client.config import Endpoint
from culvert_client.controller import calls
from culvert_client.core.client_events import PacketTrapped
from culvert_client.core.dns_wire import addresses_in
from culvert_client.daemon.datapath_owner import MEASURE_EVERY, until_measured
from culvert_client.state_dir import StateDir
from culvert_proto import CulvertError, Reason, agent_pb2, local_pb2
from culvert_proto.grpc_errors import from_rpc_error

from .controller import CODE, FAR_FUTURE, Controller, serving
from .enrolment_server import TOTP_URI, accepts, enrolment_server
from .name_server import Records, from_records, name_server
from .pki import Authority
from .running import FIRST, Running, running

WIKI = "wiki.corp.example"
RECORDS: Records = {
    (WIKI, "A"): ["10.20.0.10"],
    (WIKI, "TXT"): ['"ipsec-tunneling:yes"'],
    ("www.example.org", "A"): ["203.0.113.80"],
    ("intruder.corp.example", "A"): ["10.20.0.66"],
    ("git.corp.example", "A"): ["10.20.0.11"],
    ("git.corp.example", "TXT"): ['"ipsec-tunneling:yes"'],
}


class Lab:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.infrastructure, self.devices = Authority("infrastructure"), Authority("devices")
        self.controller = Controller()

    @contextlib.asynccontextmanager
    async def daemon(self) -> AsyncGenerator[Running]:
        async with (
            name_server(from_records(RECORDS)) as (upstream, _),
            running(self.directory, upstream) as daemon,
        ):
            yield daemon

    @contextlib.contextmanager
    def invitation(self) -> Generator[str]:
        """The link."""
        answer = accepts(self.infrastructure, self.devices, f"127.0.0.1:{self.controller.port}")
        with enrolment_server(self.directory, self.infrastructure, answer) as server:
            yield server.link(self.infrastructure)

    async def enroll(self, daemon: Running) -> local_pb2.EnrollResponse:
        with self.invitation() as link:
            return await daemon.local.Enroll(local_pb2.EnrollRequest(link=link, device_name="laptop"))

    def serving(self, port: int = 0) -> contextlib.AbstractAsyncContextManager[Controller]:
        return serving(self.controller, self.infrastructure, self.devices, port)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


async def refused(call: Awaitable[object]) -> CulvertError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return from_rpc_error(error.value, peer="culvertd")


def given(answer: dns.message.Message) -> set[str]:
    return {str(address) for address in addresses_in(answer.to_wire()) or ()}


def why(answer: dns.message.Message) -> str:
    options = cast("tuple[dns.edns.Option, ...]", answer.options)  # pyright: ignore[reportUnknownMemberType]
    return " ".join(str(option.text) for option in options if isinstance(option, dns.edns.EDEOption))


async def test_from_the_invitation_to_the_released_answer_and_a_clean_stop(lab: Lab) -> None:
    async with lab.serving() as controller:
        async with lab.daemon() as daemon:
            assert (await daemon.status()).state == local_pb2.STATE_NOT_ENROLLED
            enrolled = await lab.enroll(daemon)
            assert (enrolled.user, enrolled.totp_uri) == ("alice", TOTP_URI)
            before = await daemon.ask(WIKI)
            assert before.rcode() == dns.rcode.SERVFAIL
            assert "code is needed" in why(before)
            wrong = await refused(daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code="000000")))
            assert wrong.reason is Reason.CODE_WRONG
            proven = await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
            assert proven.code_valid_until == FAR_FUTURE
            answer = await daemon.ask(WIKI)
            assert given(answer) == {"10.20.0.10"}
            status = await daemon.status()
            assert status.state == local_pb2.STATE_CONNECTED
            assert not status.HasField("last_error")
            steps = [step.name for step in status.clicks[0].steps]
            assert sorted(steps) == sorted(
                [
                    "query",
                    "answered",
                    "txt",
                    "request",
                    "decided",
                    "programmed",
                    "reply",
                    "sas_in",
                    "released",
                ]
            )
            assert len(daemon.datapath.applied[-1].tunnels) == 1
            assert controller.open == {"t1": 1}
            assert StateDir(daemon.settings.state_dir / FIRST).tunnels() == {WIKI: "t1"}
        assert controller.open == {}
    assert not daemon.settings.socket.exists()
    assert list(daemon.settings.socket.parent.iterdir()) == []


async def test_enrolment_returns_after_the_prefixes_are_blocked(lab: Lab) -> None:
    lab.controller.hesitates = 0.5
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
        assert [str(prefix) for prefix in daemon.datapath.applied[-1].blocked] == ["10.20.0.0/16"]


@pytest.mark.slow
async def test_the_last_profile_is_blocked_before_the_controller_answers(lab: Lab) -> None:
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
    async with lab.daemon() as daemon:
        assert [str(prefix) for prefix in daemon.datapath.applied[0].blocked] == ["10.20.0.0/16"]
        answer = await daemon.ask(WIKI)
        assert answer.rcode() == dns.rcode.SERVFAIL
        assert "cannot be reached" in why(answer)
        assert (await daemon.status()).state == local_pb2.STATE_OFFLINE


@pytest.mark.slow
async def test_tunnels_outlive_the_controller_and_it_is_found_again(lab: Lab) -> None:
    async with lab.daemon() as daemon:
        async with lab.serving() as controller:
            await lab.enroll(daemon)
            await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
            opened = await daemon.local.OpenTunnel(local_pb2.OpenTunnelRequest(name="wiki"))
            assert (opened.tunnel.fqdn, opened.tunnel.state) == (WIKI, local_pb2.TUNNEL_STATE_UP)
            port = controller.port
        gone = await daemon.until(lambda status: status.state == local_pb2.STATE_OFFLINE)
        assert gone.last_error.reason == Reason.CONTROLLER_UNREACHABLE
        assert [tunnel.state for tunnel in gone.tunnels] == [local_pb2.TUNNEL_STATE_UP]
        assert (await daemon.ask(WIKI)).rcode() == dns.rcode.NOERROR
        async with lab.serving(port):
            await daemon.until(lambda status: status.state == local_pb2.STATE_CONNECTED)


@pytest.mark.slow
async def test_a_controller_that_is_back_answers_the_first_click(lab: Lab) -> None:
    wiki = local_pb2.OpenTunnelRequest(name="wiki")
    async with lab.daemon() as daemon:
        async with lab.serving() as controller:
            await lab.enroll(daemon)
            await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
            port = controller.port
        for _ in range(2):
            error = await refused(daemon.local.OpenTunnel(wiki))
            assert error.reason is Reason.CONTROLLER_UNREACHABLE
        async with lab.serving(port):
            opened = await daemon.local.OpenTunnel(wiki)
            assert opened.tunnel.state == local_pb2.TUNNEL_STATE_UP


async def test_keys_are_renewed_with_both_pairs_installed_in_between(lab: Lab) -> None:
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        await daemon.ask(WIKI)
        before = len(daemon.datapath.applied)
        expiring = agent_pb2.SaExpiring(tunnel_id="t1", generation=1)
        controller.tell(agent_pb2.WatchResponse(sa_expiring=expiring))
        await daemon.until(lambda status: status.tunnels[0].generation == 2)
        async with asyncio.timeout(30):
            while len(daemon.datapath.applied) < before + 2:  # noqa: ASYNC110  the status does not tell of it
                await asyncio.sleep(0.01)
        between, after = daemon.datapath.applied[before:]
        assert [sa.spi for sa in between.tunnels[0].inbound] == [1001, 1002]
        assert between.tunnels[0].outbound.spi == 2002
        assert [sa.spi for sa in after.tunnels[0].inbound] == [1002]
        assert controller.calls[-2:] == ["renew t1 1", "activate t1 2"]


async def test_a_tunnel_is_carried_until_its_next_gateway_is_ready(lab: Lab) -> None:
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        await daemon.ask(WIKI)
        before = len(daemon.datapath.applied)
        down = CulvertError(Reason.GATEWAY_DOWN, gateway="gw-berlin").to_proto()
        moved = agent_pb2.GatewayMoved(tunnel_id="t1", why=down)
        controller.tell(agent_pb2.WatchResponse(gateway_moved=moved))
        up = local_pb2.TUNNEL_STATE_UP
        await daemon.until(lambda it: it.tunnels[0].tunnel_id == "t2" and it.tunnels[0].state == up)
        assert [[sas.tunnel.tunnel_id for sas in it.tunnels] for it in daemon.datapath.applied[before:]] == [
            ["1/t2"]
        ]


async def test_a_revoked_tunnel_goes_at_once_and_the_reason_is_shown(lab: Lab) -> None:
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        await daemon.ask(WIKI)
        error = CulvertError(Reason.CLOSED_BY_ADMIN, why="the device was revoked").to_proto()
        lost = agent_pb2.TunnelClosed(tunnel_id="t1", why=error)
        controller.tell(agent_pb2.WatchResponse(tunnel_closed=lost))
        status = await daemon.until(lambda status: not status.tunnels)
        assert status.last_error.reason == Reason.CLOSED_BY_ADMIN
        assert daemon.datapath.applied[-1].tunnels == ()
        assert daemon.datapath.applied[-1].blocked


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (CulvertError(Reason.NO_POLICY, user="alice", name="wiki", owner="bob"), "Ask bob"),
        (CulvertError(Reason.GATEWAY_DOWN, gateway="gw-berlin"), "gw-berlin cannot be reached"),
    ],
)
async def test_a_refusal_reaches_dns_and_the_person_in_the_same_words(
    lab: Lab, refusal: CulvertError, words: str
) -> None:
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        controller.refusal = refusal
        answer = await daemon.ask(WIKI)
        assert answer.rcode() == dns.rcode.SERVFAIL
        assert words in why(answer)
        told = await refused(daemon.local.OpenTunnel(local_pb2.OpenTunnelRequest(name="wiki")))
        assert (told.reason, told.message) == (refusal.reason, refusal.message)
        assert (await daemon.status()).clicks[0].error.reason == refusal.reason
        controller.refusal = None
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        assert (await daemon.ask(WIKI)).rcode() == dns.rcode.NOERROR


NOT_ALLOWED = CulvertError(Reason.NO_POLICY, user="alice", name="pay.lab.example", owner="bob")


@pytest.mark.parametrize(
    ("name", "said", "asked"),
    [
        ("pay", NOT_ALLOWED, ["pay.corp.example", "pay.lab.example"]),
        ("PAY", NOT_ALLOWED, ["pay.corp.example", "pay.lab.example"]),
        ("pay.lab.example", NOT_ALLOWED, ["pay.lab.example"]),
        ("wikki", CulvertError(Reason.NAME_NOT_OFFERED, name="wikki"), ["wikki.corp.example", "wikki.lab.example"]),
        ("wikki.lab.example", CulvertError(Reason.NAME_UNKNOWN, name="wikki.lab.example"), ["wikki.lab.example"]),
        ("pay.bank.example", CulvertError(Reason.NAME_NOT_OFFERED, name="pay.bank.example"), []),
        ("Pay.Lab.Example.", NOT_ALLOWED, ["pay.lab.example"]),
        ("", CulvertError(Reason.REQUEST_INVALID, why="the name is empty"), []),
        ("😀.example", CulvertError(Reason.REQUEST_INVALID, why="the character “😀” (U+1F600) cannot stand in a name"), []),
    ],
)  # fmt: skip
async def test_a_name_without_permission_is_not_called_a_wrong_spelling(
    lab: Lab, name: str, said: CulvertError, asked: list[str]
) -> None:
    lab.controller.profile.managed_zones.append("lab.example")
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        controller.refusals = {
            "pay.lab.example": NOT_ALLOWED,
            **{
                it: CulvertError(Reason.NAME_UNKNOWN, name=it)
                for it in ("pay.corp.example", "wikki.corp.example", "wikki.lab.example")
            },
        }
        told = await refused(daemon.local.OpenTunnel(local_pb2.OpenTunnelRequest(name=name)))
        assert (told.reason, told.message, told.remedy) == (said.reason, said.message, said.remedy)
        assert controller.calls == [f"open {it}" for it in asked]


async def test_a_short_name_in_a_managed_zone_opens_an_unlisted_resource(lab: Lab) -> None:
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        answer = await daemon.local.OpenTunnel(local_pb2.OpenTunnelRequest(name="new"))
        assert answer.tunnel.fqdn == "new.corp.example"
        assert controller.calls == ["open new.corp.example"]


async def test_keys_that_cannot_be_installed_release_nothing_and_a_retry_works(lab: Lab) -> None:
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        daemon.datapath.error = CulvertError(Reason.DATAPATH_FAILED, why="no interface")
        assert (await daemon.ask(WIKI)).rcode() == dns.rcode.SERVFAIL
        await daemon.until(lambda status: not status.tunnels)
        assert controller.open == {}
        daemon.datapath.error = None
        assert (await daemon.ask(WIKI)).rcode() == dns.rcode.NOERROR


async def test_a_crash_leaves_no_tunnel_behind(lab: Lab) -> None:
    async with lab.serving() as controller:
        async with lab.daemon() as daemon:
            await lab.enroll(daemon)
        controller.open["t9"] = 1
        (daemon.settings.state_dir / FIRST / "tunnels.json").write_text(f'{{"{WIKI}": "t9"}}')
        async with lab.daemon() as daemon:
            await daemon.until(lambda status: not status.tunnels)
            assert controller.open == {}
            assert StateDir(daemon.settings.state_dir / FIRST).tunnels() == {}


async def test_an_invented_address_inside_a_protected_prefix_is_not_released(lab: Lab) -> None:
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        controller.refusal = CulvertError(Reason.NAME_UNKNOWN, name="intruder.corp.example")
        answer = await daemon.ask("intruder.corp.example")
        assert answer.rcode() == dns.rcode.SERVFAIL
        assert controller.calls == ["open intruder.corp.example"]


async def test_other_names_pass_without_enrolment_over_udp_and_tcp(lab: Lab) -> None:
    async with lab.daemon() as daemon:
        for tcp in (False, True):
            answer = await daemon.ask("www.example.org", tcp=tcp)
            assert given(answer) == {"203.0.113.80"}
        assert (await daemon.ask("use-application-dns.net")).rcode() == dns.rcode.NXDOMAIN
        error = await refused(daemon.local.OpenTunnel(local_pb2.OpenTunnelRequest(name="wiki")))
        assert error.reason is Reason.NOT_ENROLLED


async def test_gateways_are_chosen_by_name_and_the_choice_outlives_a_restart(lab: Lab) -> None:
    async with lab.serving():
        async with lab.daemon() as daemon:
            await lab.enroll(daemon)
            unknown = await refused(
                daemon.local.SelectGateway(local_pb2.SelectGatewayRequest(gateway="gw-rome"))
            )
            assert unknown.reason is Reason.NOT_FOUND
            await daemon.local.SelectGateway(local_pb2.SelectGatewayRequest(gateway="gw-berlin"))
        async with lab.daemon() as daemon:
            assert (await daemon.status()).selected_gateway == "gw-berlin"


async def test_a_second_daemon_does_not_take_the_socket(lab: Lab) -> None:
    async with lab.daemon() as daemon:
        with pytest.raises(OSError, match="another culvertd"):
            async with running(lab.directory, Endpoint("127.0.0.1", 53)):
                pass
        assert (await daemon.status()).state == local_pb2.STATE_NOT_ENROLLED


async def test_a_packet_to_an_address_that_a_program_kept_opens_its_tunnel(lab: Lab) -> None:
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        daemon.datapath.trapped(PacketTrapped(ip_address("10.20.0.10")))
        await daemon.until(lambda status: status.state == local_pb2.STATE_CONNECTED)
        assert controller.open == {"t1": 1}


def test_counters_are_looked_at_less_while_no_packet_passes() -> None:
    rests = [MEASURE_EVERY]
    for _ in range(4):
        rests.append(until_measured(rests[-1], passed=False, due_in=60.0))
    assert rests == [0.5, 1.0, 2.0, 2.0, 2.0]
    assert until_measured(2.0, passed=True, due_in=60.0) == 0.5


def test_the_last_look_before_a_deadline_is_as_close_as_ever() -> None:
    """A packet just before the idle time ends keeps the tunnel."""
    left, rest = 60.0, 2.0
    while left > rest:
        left -= rest
        rest = until_measured(rest, passed=False, due_in=left)
    assert left <= MEASURE_EVERY
    assert until_measured(2.0, passed=False, due_in=-1.0) == MEASURE_EVERY


async def test_a_name_without_a_dot_is_refused_with_the_full_names_reason(lab: Lab) -> None:
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
        answer = await daemon.ask("wiki")
        assert answer.rcode() == dns.rcode.SERVFAIL
        assert "code is needed" in why(answer)
        assert [str(it.name) for it in answer.question] == ["wiki."]


async def test_a_fault_in_a_call_does_not_block_the_name(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next click calls again."""

    def broken(*_: object) -> NoReturn:
        raise ValueError("a fault of the daemon itself")

    async with lab.serving(), lab.daemon() as daemon, asyncio.timeout(20):
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        with monkeypatch.context() as patch:
            patch.setattr(calls, "tunnel_from", broken)
            assert (await daemon.ask(WIKI)).rcode() == dns.rcode.SERVFAIL
        assert given(await daemon.ask(WIKI)) == {"10.20.0.10"}
