"""What `culvert doctor` says of each hop."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_interface

import pytest
from culvert_client.cli.diagnosis import Seen, verdicts
from culvert_proto import CulvertError, Reason, local_pb2

NOW = 1_700_000_000.0
SEEN = Seen(canary=False, interfaces={"wlan0": [ip_interface("192.168.1.7/24")]})


def healthy() -> local_pb2.Status:
    return local_pb2.Status(
        state=local_pb2.STATE_CONNECTED,
        user="alice",
        controller="https://c.example",
        code_valid_until=round(NOW) + 3600,
        gateways=[local_pb2.Gateway(name="gw-berlin", online=True), local_pb2.Gateway(name="gw-rome")],
        resources=[local_pb2.Resource(fqdn="wiki.corp.example", addresses=["10.20.0.10", "fd00:20::/64"])],
        tunnels=[local_pb2.Tunnel(fqdn="wiki.corp.example", drops={"icv": 0})],
        version="1",
        datapath="userspace",
    )


def wrong(status: local_pb2.Status, seen: Seen = SEEN) -> list[str]:
    found = [verdict for verdict in verdicts(status, seen, NOW) if not verdict.good]
    assert all(verdict.what and verdict.remedy for verdict in found)
    return [verdict.hop for verdict in found]


def test_a_healthy_computer_has_every_hop_good() -> None:
    hops = [verdict.hop for verdict in verdicts(healthy(), SEEN, NOW)]
    assert hops == ["daemon", "DNS path", "controller", "code", "gateway", "addresses"]
    assert wrong(healthy()) == []


@pytest.mark.parametrize("canary", [True, None])
def test_names_that_do_not_come_to_the_stub_are_noticed(canary: bool | None) -> None:
    assert wrong(healthy(), replace(SEEN, canary=canary)) == ["DNS path"]


def test_each_fault_is_told_with_its_remedy() -> None:
    status = healthy()
    status.code_valid_until = round(NOW)
    status.tunnels[0].drops["icv"] = 3
    status.selected_gateway = "gw-rome"
    status.last_error.CopyFrom(CulvertError(Reason.CODE_NEEDED).to_proto())
    home = replace(SEEN, interfaces={"wlan0": [ip_interface("10.20.0.7/16"), ip_interface("fd00:20::7/128")]})
    assert wrong(status, home) == ["code", "gateway", "addresses", "addresses", "packets", "last refusal"]


def test_an_unreachable_controller_is_told_in_the_catalogues_words() -> None:
    status = healthy()
    status.state = local_pb2.STATE_OFFLINE
    error = CulvertError(Reason.CONTROLLER_UNREACHABLE, controller="c.example")
    status.last_error.CopyFrom(error.to_proto())
    [told] = [verdict for verdict in verdicts(status, SEEN, NOW) if not verdict.good]
    assert (told.hop, told.what, told.remedy) == ("controller", error.message, error.remedy)


def test_a_pause_is_told() -> None:
    status = healthy()
    status.state = local_pb2.STATE_PAUSED
    assert wrong(status) == ["pause"]


def test_a_computer_that_is_not_enrolled_is_told_so_and_no_more() -> None:
    assert wrong(local_pb2.Status(state=local_pb2.STATE_NOT_ENROLLED)) == ["enrolment"]


def test_who_sees_little_is_judged_by_little() -> None:
    seen = local_pb2.Status(state=local_pb2.STATE_READY, controller="https://c.example")
    assert wrong(seen) == []


def test_what_the_daemon_has_examined_is_judged_hop_by_hop() -> None:
    examined = local_pb2.ExamineResponse(
        watches=True,
        clock_ahead=0,
        certificate_from=round(NOW) - 3600,
        certificate_until=round(NOW) + 3600,
        gateways=[local_pb2.GatewayPath(name="gw-berlin", mtu=1500)],
        names=[local_pb2.NameAnswer(fqdn="wiki.corp.example", answered=True, marked=True)],
    )
    # In watch mode nothing answers for the canary.
    seen = replace(SEEN, examined=examined, canary=True)
    assert wrong(healthy(), seen) == []
    hops = [verdict.hop for verdict in verdicts(healthy(), seen, NOW)]
    assert hops == [
        "daemon", "watch mode", "controller", "clock", "certificate", "code", "gateway", "MTU", "addresses", "TXT"
    ]  # fmt: skip


def test_a_tunnel_through_which_nothing_comes_back_is_told() -> None:
    status = healthy()
    status.tunnels[0].packets_out = 10
    assert wrong(status) == ["packets"]
    status.tunnels[0].packets_in = 1
    assert wrong(status) == []
