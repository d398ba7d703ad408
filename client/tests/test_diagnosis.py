"""The verdict of `culvert doctor` on each hop."""

from __future__ import annotations

import ast
from collections.abc import Callable
from ipaddress import ip_interface
from pathlib import Path
from typing import get_args

import culvert_client.cli.verdict
import pytest
from culvert_client.cli.diagnosis import Seen, verdicts
from culvert_client.cli.verdict import Hop, Verdict
from culvert_proto import CulvertError, Reason, local_pb2

NOW = 1_700_000_000.0
WIKI = "wiki.corp.example"


def examined() -> local_pb2.ExamineResponse:
    return local_pb2.ExamineResponse(
        clock_ahead=0,
        certificate_from=round(NOW) - 3600,
        certificate_until=round(NOW) + 3600,
        gateways=[local_pb2.GatewayPath(name="gw-berlin", mtu=1500)],
        tunnels=[
            local_pb2.TunnelPath(fqdn=WIKI, gateway="gw-berlin", mtu=1438, outer=1500, answered=1438),
        ],
        names=[local_pb2.NameAnswer(fqdn=WIKI, answered=True, marked=True)],
    )


def healthy() -> local_pb2.Status:
    return local_pb2.Status(
        state=local_pb2.STATE_CONNECTED,
        user="alice",
        controller="https://c.example",
        code_valid_until=round(NOW) + 3600,
        gateways=[local_pb2.Gateway(name="gw-berlin", online=True), local_pb2.Gateway(name="gw-rome")],
        resources=[local_pb2.Resource(fqdn=WIKI, addresses=["10.20.0.10", "fd00:20::/64"])],
        tunnels=[
            local_pb2.Tunnel(
                fqdn=WIKI, gateway="gw-berlin", state=local_pb2.TUNNEL_STATE_UP, drops={"icv": 0}
            )
        ],
        version="1",
        datapath="userspace",
    )


class Case:
    """A healthy computer, for a test to break."""

    def __init__(self) -> None:
        self.status, self.examined = healthy(), examined()
        self.canary: bool | None = False
        self.asks_stub = True
        self.interfaces = {"wlan0": [ip_interface("192.168.1.7/24")]}
        self.version = "1"

    def verdicts(self) -> list[Verdict]:
        seen = Seen(self.canary, self.asks_stub, self.interfaces, self.version, self.examined)
        return list(verdicts(self.status, seen, NOW))

    def fail(self, reason: Reason, age: float = 0, **fields: str) -> None:
        self.status.last_error.CopyFrom(CulvertError(reason, **fields).to_proto())
        self.status.last_error_at = round(NOW - age)


def _updated(case: Case) -> None:
    case.version = "2"


def _unreadable(case: Case) -> None:
    case.fail(Reason.STATE_UNREADABLE, path="/var/lib/culvert/profile.json", why="it is damaged")


def _port_taken(case: Case) -> None:
    case.status.state = local_pb2.STATE_BLOCKED
    case.status.datapath = ""
    error = CulvertError(Reason.UDP_PORT_TAKEN, what="charon (process 812)", port=4500)
    case.status.warnings.append(error.to_proto())


def _identity_lost(case: Case) -> None:
    _unreadable(case)
    case.status.state = local_pb2.STATE_NOT_ENROLLED


def _around_the_stub(case: Case) -> None:
    """Resolvers that are none of ours deny the canary, too."""
    case.asks_stub = False


def _knows_the_canary(case: Case) -> None:
    case.canary, case.asks_stub = True, False


def _no_name_service(case: Case) -> None:
    case.canary, case.asks_stub = None, False


def _watched_in_vain(case: Case) -> None:
    case.examined.watches = True
    case.canary = None


def _not_enrolled(case: Case) -> None:
    case.status = local_pb2.Status(state=local_pb2.STATE_NOT_ENROLLED, version="1")


def _offline(case: Case) -> None:
    case.status.state = local_pb2.STATE_OFFLINE
    case.fail(Reason.CONTROLLER_UNREACHABLE, controller="c.example")


def _offline_and_unreadable(case: Case) -> None:
    case.status.state = local_pb2.STATE_OFFLINE
    _unreadable(case)


def _dead_connection(case: Case) -> None:
    error = CulvertError(Reason.CONTROLLER_UNREACHABLE, controller="c.example")
    case.examined.controller_error.CopyFrom(error.to_proto())


def _paused(case: Case) -> None:
    case.status.state = local_pb2.STATE_PAUSED


def _slow_clock(case: Case) -> None:
    case.examined.clock_ahead = 3600


def _unrenewed(case: Case) -> None:
    case.examined.certificate_until = round(NOW) + 60


def _expired(case: Case) -> None:
    case.status.state = local_pb2.STATE_NEEDS_CODE
    case.fail(Reason.CERTIFICATE_EXPIRED, age=100)
    case.examined.certificate_until = round(NOW) - 60
    case.examined.controller_error.CopyFrom(case.status.last_error)


def _no_code(case: Case) -> None:
    case.status.state = local_pb2.STATE_NEEDS_CODE
    case.status.code_valid_until = round(NOW)
    case.fail(Reason.CODE_NEEDED, age=100, name=WIKI)


def _no_gateway(case: Case) -> None:
    case.status.gateways[0].online = False


def _chosen_is_offline(case: Case) -> None:
    case.status.selected_gateway = "gw-rome"


def _silent_gateway(case: Case) -> None:
    case.status.tunnels[0].state = local_pb2.TUNNEL_STATE_SILENT


def _blocked_tunnel(case: Case) -> None:
    _silent_gateway(case)
    fields = {"gateway": "gw-berlin", "name": WIKI, "port": 4500, "address": "198.51.100.2"}
    case.status.last_error.CopyFrom(CulvertError(Reason.TUNNEL_BLOCKED, **fields).to_proto())


def _small_packets_alone(case: Case) -> None:
    case.status.tunnels[0].state = local_pb2.TUNNEL_STATE_NARROW


def _narrow_path(case: Case) -> None:
    case.examined.gateways[0].mtu = 1400


def _network_in_a_protected_prefix(reason: Reason) -> Callable[[Case], None]:
    """No resource lies in it."""

    def broken(case: Case) -> None:
        error = CulvertError(reason, network="10.20.99.0/24", device="docker0", prefix="10.20.0.0/16")
        case.status.warnings.append(error.to_proto())

    return broken


def _other_settings(reason: Reason) -> Callable[[Case], None]:
    """At the moment of the look names come to the stub."""

    def broken(case: Case) -> None:
        what, why = "/etc/resolv.conf (dhcpcd)", "/etc/resolv.conf (immutable)"
        error = CulvertError(reason, what=what, why=why, port=53, host="127.0.0.1", path="/var/note")
        case.status.warnings.append(error.to_proto())

    return broken


def _home_network_of_a_resource(case: Case) -> None:
    case.interfaces["wlan0"] = [ip_interface("10.20.0.7/16")]


def _answers(rcode: str, *, answered: bool = True, marked: bool = False) -> Callable[[Case], None]:
    def broken(case: Case) -> None:
        name = local_pb2.NameAnswer(fqdn=WIKI, answered=answered, marked=marked, rcode=rcode)
        case.examined.names[0].CopyFrom(name)

    return broken


def _public_networks(case: Case) -> None:
    case.status.awaiting_prefixes.append("9.9.9.0/24")


def _drops(case: Case) -> None:
    case.status.tunnels[0].drops["icv"] = 3


def _nothing_comes_back(case: Case) -> None:
    case.status.tunnels[0].packets_out = 10


def _refused(case: Case) -> None:
    case.fail(Reason.NAME_UNKNOWN, age=130, name="wikki.corp.example")


BROKEN: list[tuple[Hop, Callable[[Case], None], str]] = [
    ("daemon", _updated, "this is culvert 2"),
    ("datapath", _port_taken, "charon (process 812) has UDP port 4500"),
    ("state", _unreadable, "profile.json cannot be read"),
    ("state", _identity_lost, "profile.json cannot be read"),
    ("DNS path", _around_the_stub, "without culvertd"),
    ("DNS path", _knows_the_canary, "without culvertd"),
    ("DNS path", _no_name_service, "does not answer"),
    ("DNS path", _other_settings(Reason.DNS_SETTINGS_CONTESTED), "/etc/resolv.conf (dhcpcd)"),
    ("DNS path", _other_settings(Reason.DNS_SETTINGS_FAILED), "/etc/resolv.conf (immutable)"),
    ("DNS path", _other_settings(Reason.DNS_PORT_UNUSABLE), "port 53 of 127.0.0.1"),
    ("DNS path", _other_settings(Reason.DNS_WATCH_FAILED), "cannot watch"),
    ("DNS path", _other_settings(Reason.DNS_SERVERS_FORGOTTEN), "/var/note"),
    ("watch mode", _watched_in_vain, "does not answer"),
    ("enrolment", _not_enrolled, "not enrolled"),
    ("controller", _offline, "c.example"),
    ("controller", _offline_and_unreadable, "c.example"),
    ("controller", _dead_connection, "c.example"),
    ("pause", _paused, "paused"),
    ("clock", _slow_clock, "1 h behind"),
    ("certificate", _unrenewed, "was not renewed"),
    ("certificate", _expired, "has expired"),
    ("code", _no_code, "No valid code"),
    ("gateway", _no_gateway, "No gateway is online"),
    ("gateway", _chosen_is_offline, "gw-rome"),
    ("gateway", _silent_gateway, "gw-berlin does not answer"),
    ("gateway", _blocked_tunnel, "UDP port 4500"),
    ("gateway", _small_packets_alone, "Only small packets pass"),
    ("MTU", _narrow_path, "1400"),
    ("addresses", _network_in_a_protected_prefix(Reason.LOCAL_NETWORK_OPEN), "10.20.99.0/24"),
    ("addresses", _network_in_a_protected_prefix(Reason.LOCAL_NETWORK_BLOCKED), "10.20.99.0/24"),
    ("addresses", _network_in_a_protected_prefix(Reason.LOCAL_NETWORK_UNPROTECTED), "10.20.99.0/24"),
    ("addresses", _home_network_of_a_resource, WIKI),
    ("TXT", _answers("REFUSED"), "REFUSED"),
    ("TXT", _answers("NXDOMAIN"), "NXDOMAIN"),
    ("TXT", _answers(""), "does not say"),
    ("TXT", _answers("", answered=False), "does not answer"),
    ("public networks", _public_networks, "9.9.9.0/24"),
    ("packets", _drops, "3 not authentic"),
    ("packets", _nothing_comes_back, "none came back"),
    ("last denial", _refused, "That was 2 min ago"),
]
# The hop "rest" lists unjudged facts.
NO_VERDICT: set[Hop] = {"rest"}


def test_each_hop_has_a_case_in_which_it_must_fail() -> None:
    assert {hop for hop, *_ in BROKEN} | NO_VERDICT == set(get_args(Hop))


def test_each_hop_is_judged_somewhere() -> None:
    """A hop that no code names would have a test, and no verdict."""
    sources = Path(culvert_client.cli.verdict.__file__).parent.glob("*.py")
    named = {
        node.args[0].value
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Verdict", "fault")
        if node.args and isinstance(node.args[0], ast.Constant)
    }
    assert named == set(get_args(Hop))


@pytest.mark.parametrize(
    ("hop", "broken", "said"), BROKEN, ids=[f"{hop}:{it.__name__}" for hop, it, _ in BROKEN]
)
def test_a_hop_that_is_broken_is_not_called_well(hop: Hop, broken: Callable[[Case], None], said: str) -> None:
    case = Case()
    assert [it for it in case.verdicts() if not it.good] == []
    broken(case)
    found = [it for it in case.verdicts() if it.hop == hop]
    assert found
    assert not any(it.good for it in found)
    assert said in found[0].what
    assert all(it.remedy for it in found)


def test_a_healthy_computer_has_every_hop_good() -> None:
    assert [(it.hop, it.good) for it in Case().verdicts()] == [
        (hop, True)
        for hop in (
            "daemon", "DNS path", "controller", "clock", "certificate", "code", "gateway", "MTU", "addresses", "TXT"
        )
    ]  # fmt: skip


def test_a_lost_identity_is_not_called_a_computer_that_never_enrolled() -> None:
    case = Case()
    _identity_lost(case)
    assert [it.hop for it in case.verdicts() if not it.good] == ["state"]


def test_a_blocked_tunnel_is_told_once() -> None:
    case = Case()
    _blocked_tunnel(case)
    assert [it.hop for it in case.verdicts() if not it.good] == ["gateway"]


@pytest.mark.parametrize(
    ("broken", "hops"), [(_expired, ["controller", "certificate"]), (_no_code, ["code"])]
)
def test_a_refusal_that_a_hop_reports_is_not_repeated(
    broken: Callable[[Case], None], hops: list[Hop]
) -> None:
    case = Case()
    broken(case)
    assert [it.hop for it in case.verdicts() if not it.good] == hops


def test_another_gateway_that_is_silent_does_not_hide_those_that_answer() -> None:
    case = Case()
    case.status.gateways[1].online = True
    _silent_gateway(case)
    assert [(it.good, "gw-rome" in it.what) for it in case.verdicts() if it.hop == "gateway"] == [
        (False, False),
        (True, True),
    ]


def test_an_unreachable_controller_is_told_in_the_catalogues_words() -> None:
    case = Case()
    _offline(case)
    error = CulvertError(Reason.CONTROLLER_UNREACHABLE, controller="c.example")
    [told] = [it for it in case.verdicts() if not it.good]
    assert (told.hop, told.what, told.remedy) == ("controller", error.message, error.remedy)


def test_doctor_leaves_out_hops_that_the_caller_may_not_see() -> None:
    status = local_pb2.Status(state=local_pb2.STATE_READY, controller="https://c.example", version="1")
    found = verdicts(status, Seen(False, False, {}, "1"), NOW)
    assert [(it.hop, it.good) for it in found] == [("daemon", True), ("rest", True)]


def test_in_watch_mode_names_need_not_reach_the_stub() -> None:
    case = Case()
    case.examined.watches, case.canary, case.asks_stub = True, True, False
    assert [it.hop for it in case.verdicts() if not it.good] == []


def test_a_device_with_two_addresses_in_a_resources_network_is_named_once() -> None:
    case = Case()
    case.interfaces["wlan0"] = [ip_interface("10.20.0.7/16"), ip_interface("10.20.0.8/16")]
    said = [it.what for it in case.verdicts() if it.hop == "addresses"]
    assert len(said) == len(set(said)) > 0


def test_a_code_that_cannot_be_checked_is_not_asked_for() -> None:
    """After a start of the daemon without the controller: it keeps no code over a restart."""
    case = Case()
    _offline(case)
    case.status.code_valid_until = 0
    assert [it for it in case.verdicts() if it.hop == "code"] == [
        Verdict("code", True, "Not known while offline.")
    ]
