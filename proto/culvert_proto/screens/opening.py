"""The bar of a name's last opening: how long each hop took, and which one is slow or failed. Pure.

The daemon's clicks have the times of name server, controller, gateway and this computer; HopTimes, which a person asks for,
those behind them. What was not measured is said to be unknown, and never computed from other times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.dns_name import make_readable
from culvert_proto.language import words as _
from culvert_proto.phrases import Phrase
from culvert_proto.screens.units import took

# Our tunables, in seconds: what a person notices.
_SLOW_HOP, _SLOW_PAGE, _SLOW_TRIP = 1.0, 2.0, 0.3

_NAME_SERVER = frozenset({Reason.DNS_UPSTREAM_FAILED, Reason.DNS_REBINDING})
_GATEWAY = frozenset(
    {
        Reason.GATEWAY_DOWN, Reason.GATEWAY_REFUSED, Reason.GATEWAY_DRAINING, Reason.GATEWAY_NOT_CONNECTED,
        Reason.POOL_EXHAUSTED, Reason.GATEWAY_SILENT, Reason.TUNNEL_BLOCKED, Reason.PATH_NARROW,
    }
)  # fmt: skip
_HERE = frozenset(
    {
        Reason.DATAPATH_FAILED, Reason.PAUSED, Reason.ADDRESS_COLLISION, Reason.ORGANISATIONS_COLLIDE,
        Reason.CONSENT_NEEDED, Reason.UDP_PORT_TAKEN, Reason.TUN_NAME_TAKEN, Reason.TUN_MISSING,
        Reason.TUN_FORBIDDEN, Reason.TUN_LOST, Reason.CLOSED_BY_USER,
        Reason.DAEMON_STOPPED,
    }
)  # fmt: skip


_Hops: TypeAlias = "Mapping[local_pb2.HopKind.ValueType, local_pb2.HopTime]"


# Any other reason of the controller is its decision.
_CONTROLLER_FAULTS = frozenset(
    {
        Reason.CONTROLLER_UNREACHABLE, Reason.TIMEOUT, Reason.INTERNAL, Reason.DATABASE_DOWN, Reason.CAPTIVE_PORTAL,
        Reason.CONTROLLER_UNTRUSTED, Reason.CONTROLLER_INVALID, Reason.CLOCK_WRONG, Reason.CONTROLLER_CA_UNKNOWN,
        Reason.CONTROLLER_NAME_WRONG, Reason.CONTROLLER_CERTIFICATE_EXPIRED, Reason.HANDSHAKE_REFUSED,
    }
)  # fmt: skip


class Hop(Enum):
    """In the order in which a page is opened."""

    NAME_SERVER = Phrase("Name server")
    CONTROLLER = Phrase("Controller")
    GATEWAY = Phrase("Gateway")
    HERE = Phrase("This computer")
    SERVER = Phrase("Server")
    PAGE = Phrase("Page")


class Verdict(Enum):
    GOOD = "good"
    SLOW = "slow"
    DENIED = "denied"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Part:
    """`seconds`: None where it was not measured."""

    hop: Hop
    verdict: Verdict
    seconds: float | None = None

    @property
    def name(self) -> str:
        return self.hop.value.localise()

    @property
    def text(self) -> str:
        """'12 ms', 'failed after 3 s', 'not measured'."""
        time = took(self.seconds) if self.seconds is not None else ""
        match self.verdict:
            case Verdict.UNKNOWN:
                return _("not measured")
            case Verdict.DENIED:
                return _("denied after {time}").format(time=time) if time else _("denied")
            case Verdict.FAILED:
                return _("failed after {time}").format(time=time) if time else _("failed")
            case Verdict.SLOW:
                return _("{time}, slow").format(time=time)
            case Verdict.GOOD:
                return time or _("in order")


@dataclass(frozen=True, slots=True)
class Opening:
    """`at`: Unix seconds of the opening. `total`: seconds until its name was answered; None without an answer.
    `is_over`: nothing is waited for any more."""

    fqdn: str
    organisation: str
    at: float
    total: float | None
    is_over: bool
    parts: tuple[Part, ...]
    conclusion: str

    @property
    def verdict(self) -> Verdict:
        """The worst of the parts that are known."""
        found = {it.verdict for it in self.parts}
        return next(
            (it for it in (Verdict.FAILED, Verdict.DENIED, Verdict.SLOW) if it in found), Verdict.GOOD
        )


def last_opening(status: local_pb2.Status, fqdn: str = "") -> Opening | None:
    """The last opening of this name, or else of any; None without one since the daemon's start."""
    click = next((it for it in status.clicks if not fqdn or fqdn in (it.fqdn, it.tunnel)), None)
    timed_alone = next((it for it in status.hop_times if it.fqdn == fqdn), None)
    if click is None and timed_alone is not None:
        # The daemon forgets the clicks of closed tunnels.
        click = local_pb2.Click(
            fqdn=fqdn, started_us=timed_alone.at_ms * 1000, organisation=timed_alone.organisation
        )
    if click is None:
        return None
    names = (click.fqdn, click.tunnel or click.fqdn)
    mine = [it for it in status.hop_times if it.fqdn in names and it.organisation == click.organisation]
    tunnel = next((it for it in status.tunnels if it.fqdn in names), None)
    return _opening(click, mine[0] if mine else local_pb2.HopTimes(), tunnel)


def _opening(click: local_pb2.Click, timed: local_pb2.HopTimes, tunnel: local_pb2.Tunnel | None) -> Opening:
    steps = {it.name: it.at_us / 1e6 for it in click.steps}
    error = CulvertError.from_proto(click.error) if click.HasField("error") else None
    hops = {it.kind: it for it in timed.hops}
    end = steps.get("released", steps.get("sas_in")) if error is None else None
    parts = (*_inside(steps, error, hops, tunnel), *_behind(hops))
    return Opening(
        click.fqdn,
        click.organisation,
        click.started_us / 1e6,
        end,
        end is not None or error is not None,
        parts,
        _conclude(tunnel, parts, error, hops, end),
    )


def _inside(
    steps: Mapping[str, float],
    error: CulvertError | None,
    hops: _Hops,
    tunnel: local_pb2.Tunnel | None,
) -> Iterable[Part]:
    asked = hops.get(local_pb2.HOP_KIND_NAME_SERVER)
    failed = _failed_hop(error) if error is not None else None
    if failed is None and tunnel is not None and tunnel.state in _UNUSABLE:
        failed = Hop.GATEWAY
    names = _between(steps, "query", "answered")
    if names is None and asked is not None:
        # The opening needed no name server: a program already had the address.
        names = asked.us / 1e6
        if asked.result != local_pb2.HOP_RESULT_ANSWERED:
            failed = failed or Hop.NAME_SERVER
    decided, way_back = _between(steps, "request", "decided"), _between(steps, "programmed", "reply")
    refused = _between(steps, "request", "reply") if error is not None else None
    controller = decided + way_back if decided is not None and way_back is not None else refused
    times = {
        Hop.NAME_SERVER: names,
        Hop.CONTROLLER: controller,
        Hop.GATEWAY: _between(steps, "decided", "programmed"),
        Hop.HERE: _between(steps, "reply", "sas_in"),
    }
    for hop, seconds in times.items():
        if hop is failed and error is None and hop is Hop.GATEWAY:
            # It took the keys in that time, and fails now.
            yield Part(hop, Verdict.FAILED)
        elif hop is failed:
            is_denial = hop is Hop.CONTROLLER and error is not None and error.reason not in _CONTROLLER_FAULTS
            yield Part(hop, Verdict.DENIED if is_denial else Verdict.FAILED, seconds)
        else:
            yield _part(hop, seconds, _SLOW_HOP)


_UNUSABLE = (local_pb2.TUNNEL_STATE_SILENT, local_pb2.TUNNEL_STATE_NARROW)


def _behind(hops: _Hops) -> Iterable[Part]:
    server, page = hops.get(local_pb2.HOP_KIND_SERVER), hops.get(local_pb2.HOP_KIND_PAGE)
    gateway = hops.get(local_pb2.HOP_KIND_GATEWAY)
    trip = gateway.us / 1e6 if gateway is not None else 0.0
    yield _timed(Hop.SERVER, server, trip + _SLOW_TRIP if trip else _SLOW_HOP)
    yield _timed(Hop.PAGE, page, _SLOW_PAGE)


def _timed(hop: Hop, timed: local_pb2.HopTime | None, slow: float) -> Part:
    if timed is None:
        return Part(hop, Verdict.UNKNOWN)
    seconds = timed.us / 1e6 if timed.us else None
    if timed.result != local_pb2.HOP_RESULT_ANSWERED:
        return Part(hop, Verdict.FAILED, seconds)
    return _part(hop, seconds, slow)


def _part(hop: Hop, seconds: float | None, slow: float) -> Part:
    if seconds is None:
        return Part(hop, Verdict.UNKNOWN)
    return Part(hop, Verdict.SLOW if seconds >= slow else Verdict.GOOD, seconds)


def _between(steps: Mapping[str, float], first: str, last: str) -> float | None:
    # Controller and computer have a clock each: a step may seem to end before it begins.
    return max(0.0, steps[last] - steps[first]) if first in steps and last in steps else None


def _failed_hop(error: CulvertError) -> Hop:
    if error.reason in _NAME_SERVER:
        return Hop.NAME_SERVER
    if error.reason in _GATEWAY:
        return Hop.GATEWAY
    return Hop.HERE if error.reason in _HERE else Hop.CONTROLLER


def _conclude(
    tunnel: local_pb2.Tunnel | None,
    parts: Iterable[Part],
    error: CulvertError | None,
    hops: _Hops,
    total: float | None,
) -> str:
    if error is not None:
        return make_readable(error.message)
    known = {it.hop: it for it in parts}
    failed = next((it for it in known.values() if it.verdict is Verdict.FAILED), None)
    if failed is not None:
        if tunnel is not None and tunnel.state == local_pb2.TUNNEL_STATE_NARROW and failed.hop is Hop.GATEWAY:
            return _("Only small packets reach the gateway.")
        return _failure(failed, hops)
    slow = [it for it in known.values() if it.verdict is Verdict.SLOW and it.seconds is not None]
    if slow:
        return _slowness(max(slow, key=lambda it: it.seconds or 0.0), hops)
    page = known[Hop.PAGE]
    if page.seconds is not None:
        told = _("Nothing is slow: the page began after {time}.")
        return told.format(time=took(page.seconds))
    if known[Hop.SERVER].verdict is Verdict.GOOD:
        return _("Culvert and the way to the server are in order.")
    if total is not None:
        told = _("Culvert opened it in {time}. Server and page were not measured.")
        return told.format(time=took(total))
    return _("Culvert is still opening it.")


def _failure(part: Part, hops: _Hops) -> str:
    server, page = hops.get(local_pb2.HOP_KIND_SERVER), hops.get(local_pb2.HOP_KIND_PAGE)
    match part.hop:
        case Hop.NAME_SERVER:
            return _("The name server does not answer.")
        case Hop.GATEWAY:
            return _("The gateway does not answer.")
        case Hop.SERVER if server is not None and server.result == local_pb2.HOP_RESULT_REFUSED:
            told = _("The server has no program at port {port}. Culvert reaches the server.")
            return told.format(port=server.port)
        case Hop.SERVER:
            return _("The server does not answer. Culvert and the gateway are in order.")
        case Hop.PAGE if page is not None and page.http_status:
            told = _("The page fails, not Culvert: the server answers with error {number}.")
            return told.format(number=page.http_status)
        case Hop.PAGE if page is not None and page.result == local_pb2.HOP_RESULT_SILENT:
            told = _("The page hangs, not Culvert: the server takes the request and sends nothing in {time}.")
            return told.format(time=took(page.us / 1e6))
        case Hop.PAGE:
            return _("The page fails, not Culvert: the server ends the connection.")
        case _:
            return _("{hop} failed.").format(hop=part.name)


def _slowness(part: Part, hops: _Hops) -> str:
    time = took(part.seconds or 0.0)
    gateway = hops.get(local_pb2.HOP_KIND_GATEWAY)
    match part.hop:
        case Hop.PAGE:
            told = _("The page is slow, not Culvert: its server took {time} for the first byte.")
        case Hop.SERVER if gateway is not None:
            told = _("The server is slow, or far from the gateway: it took {time} to accept a connection.")
        case Hop.SERVER:
            told = _("The way to the server is slow: it took {time} to accept a connection.")
        case Hop.NAME_SERVER:
            told = _("The name server is slow: it took {time}.")
        case Hop.CONTROLLER:
            told = _("The controller is slow, or far from here: it took {time}.")
        case Hop.GATEWAY:
            told = _("The gateway was slow to take the keys: {time}.")
        case Hop.HERE:
            told = _("This computer was slow to install the tunnel: {time}.")
    return told.format(time=time)
