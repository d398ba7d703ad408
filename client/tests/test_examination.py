"""The daemon examines each hop: a real web server, name server, certificate and pings."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import dns.message
import dns.rcode
import dns.rrset
import pytest
from culvert_client.cli.hops import txt
from culvert_client.core.path_mtu import UNMEASURED
from culvert_client.ping import Ping, ping
from culvert_lab.free_port import free_port
from culvert_proto import Reason, agent_pb2, local_pb2
from culvert_proto.sa import outer_length

from .controller import CODE, Controller, serving
from .enrolment_server import accepts, enrolment_server
from .name_server import Records, from_records, name_server
from .pki import Authority
from .running import PLATFORM, Running, running

WIKI = "wiki.corp.example"
RECORDS: Records = {(WIKI, "A"): ["10.20.0.10"], (WIKI, "TXT"): ['"ipsec-tunneling:yes"']}

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets need root")


async def _measured(daemon: Running) -> None:
    """Waits until the daemon knows the path of its tunnel."""
    while (await daemon.local.Examine(local_pb2.ExamineRequest())).tunnels[0].outer != UNMEASURED:
        pass


@needs_root
@pytest.mark.slow
async def test_each_hop_is_seen_as_it_is(tmp_path: Path, gateway_address: str) -> None:
    infrastructure, devices, controller = Authority("infrastructure"), Authority("devices"), Controller()
    controller.profile.gateways[0].address = gateway_address
    controller.profile.resources.append(agent_pb2.Resource(name="git", fqdn="git.corp.example"))
    async with (
        name_server(from_records(RECORDS)) as (upstream, _),
        serving(controller, infrastructure, devices),
        running(tmp_path, upstream) as daemon,
    ):
        answer = accepts(infrastructure, devices, f"127.0.0.1:{controller.port}")
        with enrolment_server(tmp_path, infrastructure, answer) as server:
            await daemon.local.Enroll(local_pb2.EnrollRequest(link=server.link(infrastructure)))
            await daemon.until(lambda status: status.state == local_pb2.STATE_NEEDS_CODE)
            await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
            await daemon.ask(WIKI)
            await _measured(daemon)
            seen = await daemon.local.Examine(local_pb2.ExamineRequest())
            [probe] = (await daemon.ask(seen.probe_name)).answer
            assert probe == dns.rrset.from_text(probe.name, 0, "IN", "A", seen.probe_address)
            assert not (await daemon.ask(f"another.{seen.probe_name}")).answer
            assert not (await daemon.ask(seen.probe_name, "AAAA")).answer
        silent = await daemon.local.Examine(local_pb2.ExamineRequest())
    assert abs(seen.clock_ahead) <= 1
    assert not silent.HasField("clock_ahead")
    assert seen.certificate_from <= time.time() < seen.certificate_until
    assert [(it.name, it.mtu) for it in seen.gateways] == [("gw-berlin", 1500)]
    # No packets flow here, so neither the gateway nor anything inside answers.
    assert [(it.fqdn, it.mtu, it.outer, it.answered) for it in seen.tunnels] == [(WIKI, 1338, UNMEASURED, 0)]
    assert {it.fqdn: (it.answered, it.marked) for it in seen.names} == {
        WIKI: (True, True),
        "git.corp.example": (True, False),
    }
    assert not seen.watches
    assert not seen.HasField("controller_error")


@needs_root
@pytest.mark.parametrize("rcode", [dns.rcode.REFUSED, dns.rcode.SERVFAIL, dns.rcode.NXDOMAIN])
async def test_a_name_server_that_answers_with_an_error_is_not_called_well(
    tmp_path: Path, gateway_address: str, rcode: dns.rcode.Rcode
) -> None:
    infrastructure, devices, controller = Authority("infrastructure"), Authority("devices"), Controller()
    controller.profile.gateways[0].address = gateway_address
    async with (
        name_server(lambda query: [_failing(query, rcode)]) as (upstream, _),
        serving(controller, infrastructure, devices),
        running(tmp_path, upstream) as daemon,
    ):
        answer = accepts(infrastructure, devices, f"127.0.0.1:{controller.port}")
        with enrolment_server(tmp_path, infrastructure, answer) as server:
            await daemon.local.Enroll(local_pb2.EnrollRequest(link=server.link(infrastructure)))
        await daemon.until(lambda status: status.state == local_pb2.STATE_NEEDS_CODE)
        seen = await daemon.local.Examine(local_pb2.ExamineRequest())
    assert [(it.good, dns.rcode.to_text(rcode) in it.what) for it in txt(seen)] == [(False, True)]


def _failing(query: bytes, rcode: dns.rcode.Rcode) -> bytes:
    message = dns.message.make_response(dns.message.from_wire(query))
    message.set_rcode(rcode)
    return message.to_wire()


@needs_root
async def test_a_connection_that_cannot_be_made_again_is_told(tmp_path: Path) -> None:
    """The daemon has one with the controller, and nothing says that it is dead."""
    infrastructure, devices, controller = Authority("infrastructure"), Authority("devices"), Controller()
    async with (
        name_server(from_records(RECORDS)) as (upstream, _),
        serving(controller, infrastructure, devices),
        running(tmp_path, upstream) as daemon,
    ):
        answer = accepts(infrastructure, devices, f"127.0.0.1:{controller.port}")
        with enrolment_server(tmp_path, infrastructure, answer) as server:
            await daemon.local.Enroll(local_pb2.EnrollRequest(link=server.link(infrastructure)))
        status = await daemon.until(lambda status: status.state == local_pb2.STATE_NEEDS_CODE)
        [organisation] = daemon.daemon.organisations.values()
        identity = organisation.connection.identity
        assert identity is not None
        organisation.connection.identity = replace(identity, agent_address=f"127.0.0.1:{free_port()}")
        seen = await daemon.local.Examine(local_pb2.ExamineRequest())
    assert status.state == local_pb2.STATE_NEEDS_CODE
    assert seen.controller_error.reason == Reason.CONTROLLER_UNREACHABLE


@needs_root
async def test_a_ping_is_as_long_as_it_says_and_never_in_pieces() -> None:
    # Loopback takes 65,536 bytes at once.
    fits, wider = Ping(ip_address("127.0.0.1"), 65_000), Ping(ip_address("::1"), 1500)
    assert (await ping(PLATFORM.ping_sockets, [fits, wider])).keys() == {fits, wider}


@pytest.mark.parametrize(
    ("inner", "version", "outer"), [(1438, 4, 1500), (1437, 4, 1500), (1418, 6, 1500), (1280, 4, 1344)]
)
def test_a_sealed_packet_is_longer_by_what_the_rfcs_add(inner: int, version: int, outer: int) -> None:
    assert outer_length(inner, version) == outer
