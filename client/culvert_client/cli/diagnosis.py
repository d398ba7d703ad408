"""`culvert doctor`: the verdict and remedy for each hop, from the daemon's status and this computer's state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_network

from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.phrases import duration
from culvert_proto.screens.organisations import code_is_unknown, is_enrolled
from culvert_proto.screens.units import drops

from culvert_client.cli import hops
from culvert_client.cli.language import _
from culvert_client.cli.verdict import Verdict, fault

Interface = IPv4Interface | IPv6Interface


@dataclass(frozen=True, slots=True)
class Seen:
    """`canary`: whether the system's resolver finds Firefox's canary, which the stub denies; None without an answer.
    `asks_stub`: whether it gave the answer that the stub alone gives. `interfaces` are this computer's addresses by device,
    without our own devices. `version` is this program's. `examined` is None where the daemon tells the caller nothing."""

    canary: bool | None
    asks_stub: bool
    interfaces: Mapping[str, Sequence[Interface]]
    version: str
    examined: local_pb2.ExamineResponse | None = None


_COLLISIONS = (
    Reason.LOCAL_NETWORK_OPEN,
    Reason.LOCAL_NETWORK_BLOCKED,
    Reason.LOCAL_NETWORK_UNPROTECTED,
)
_FILES = (Reason.STATE_UNREADABLE, Reason.STATE_UNWRITABLE, Reason.STATE_FORGOTTEN)
_NAME_SERVICE = (
    Reason.DNS_SETTINGS_CONTESTED,
    Reason.DNS_SETTINGS_FAILED,
    Reason.DNS_PORT_UNUSABLE,
    Reason.DNS_WATCH_FAILED,
    Reason.DNS_SERVERS_FORGOTTEN,
)
# Faults that the verdict on the gateway, the certificate or the code already reports.
_TOLD = frozenset(
    {
        Reason.GATEWAY_SILENT,
        Reason.TUNNEL_BLOCKED,
        Reason.PATH_NARROW,
        Reason.CERTIFICATE_EXPIRED,
        Reason.CODE_NEEDED,
        Reason.CODE_EXPIRED,
    }
)
# Our tunable: a tunnel with this many packets and no answer is a fault.
_UNANSWERED = 10


def name_datapath(datapath: str) -> str:
    return {"kernel": _("the kernel's IPsec"), "userspace": _("Culvert's own IPsec")}.get(datapath, datapath)


def verdicts(status: local_pb2.Status, seen: Seen, now: float) -> Iterator[Verdict]:
    """`now`: Unix seconds. Hops that the caller may not see are left out."""
    yield _daemon(status, seen.version)
    examined, names_come = seen.examined, True
    for warning in map(CulvertError.from_proto, status.warnings):
        if warning.reason in _NAME_SERVICE:
            names_come = False
            yield fault("DNS path", warning)
        elif warning.reason in _FILES:
            yield fault("state", warning)
        elif warning.reason not in _COLLISIONS:
            yield fault("datapath", warning)
    if examined is not None and names_come:
        yield hops.watch_mode(seen.canary) if examined.watches else _dns_path(seen.canary, seen.asks_stub)
    error = CulvertError.from_proto(status.last_error) if status.HasField("last_error") else None
    if error is not None and error.reason is Reason.STATE_UNREADABLE:
        yield fault("state", error)
        error = None
    elif status.state == local_pb2.STATE_NOT_ENROLLED:
        yield fault("enrolment", CulvertError(Reason.NOT_ENROLLED))
    if not is_enrolled(status):
        return
    if status.state == local_pb2.STATE_PAUSED:
        yield fault("pause", CulvertError(Reason.PAUSED), _("Culvert is paused: it opens no tunnel."))
    if examined is not None or status.state == local_pb2.STATE_OFFLINE:
        yield _controller(status, examined, error)
    if examined is not None:
        yield hops.clock(examined)
        yield hops.certificate(examined, now)
    if not status.user:
        yield Verdict("rest", True, _("Only root and the user who enrolled this computer see more."))
        return
    if code_is_unknown(status):
        yield Verdict("code", True, _("Not known while offline."))
    elif status.code_valid_until > now:
        yield Verdict(
            "code",
            True,
            _("Valid for {time}.").format(time=duration(status.code_valid_until - now)),
        )
    else:
        yield fault("code", CulvertError(Reason.CODE_NEEDED), _("No valid code."))
    yield from _gateways(status)
    if examined is not None:
        yield from hops.mtu(examined)
        yield from _collisions(status, seen.interfaces)
        yield from hops.txt(examined)
    if status.awaiting_prefixes:
        prefixes = ", ".join(status.awaiting_prefixes)
        waiting = _("{prefixes} are public and wait for your answer.").format(prefixes=prefixes)
        yield fault("public networks", CulvertError(Reason.CONSENT_NEEDED, prefixes=prefixes), waiting)
    yield from _drops(status)
    if error is not None and status.state != local_pb2.STATE_OFFLINE and error.reason not in _TOLD:
        yield _last_denial(error, status.last_error_at, now)


def _daemon(status: local_pb2.Status, version: str) -> Verdict:
    if status.version != version:
        said = _("culvertd {version} runs, and this is culvert {own}.")
        return Verdict(
            "daemon",
            False,
            said.format(version=status.version, own=version),
            _("Restart culvertd: it was updated while it ran."),
        )
    if not status.datapath:
        return Verdict("daemon", True, _("culvertd {version} runs.").format(version=status.version))
    return Verdict(
        "daemon",
        True,
        _("culvertd {version} runs. Packets go through {datapath}.").format(
            version=status.version, datapath=name_datapath(status.datapath)
        ),
    )


def _dns_path(canary: bool | None, asks_stub: bool) -> Verdict:
    if canary is None:
        return Verdict(
            "DNS path", False, _("The system's name service does not answer."), _("Restart culvertd.")
        )
    if not asks_stub:
        return Verdict(
            "DNS path",
            False,
            _("Names are resolved without culvertd."),
            _("Restart culvertd, or see dns_upstream in its settings."),
        )
    return Verdict("DNS path", True, _("Names are resolved through culvertd."))


def _controller(
    status: local_pb2.Status, examined: local_pb2.ExamineResponse | None, error: CulvertError | None
) -> Verdict:
    """`error`: the status's error. The result of a new connection takes precedence, because the open one may be dead."""
    failed = error if status.state == local_pb2.STATE_OFFLINE else None
    if failed is None and examined is not None and examined.HasField("controller_error"):
        failed = CulvertError.from_proto(examined.controller_error)
    if failed is None and status.state == local_pb2.STATE_OFFLINE:
        failed = CulvertError(Reason.CONTROLLER_UNREACHABLE, controller=status.controller)
    if failed is not None:
        return fault("controller", failed)
    return Verdict("controller", True, _("{controller} answers.").format(controller=status.controller))


def _last_denial(error: CulvertError, at: int, now: float) -> Verdict:
    """`at`: Unix seconds, 0 if unknown."""
    if not at:
        return fault("last denial", error)
    said = _("{message} That was {time} ago.")
    told = said.format(message=error.message, time=duration(now - at))
    return fault("last denial", error, told)


def _gateways(status: local_pb2.Status) -> Iterator[Verdict]:
    narrow = {it.gateway: it.fqdn for it in status.tunnels if it.state == local_pb2.TUNNEL_STATE_NARROW}
    for gateway, fqdn in sorted(narrow.items()):
        error = CulvertError(Reason.PATH_NARROW, gateway=gateway, name=fqdn)
        yield fault("gateway", error)
    silent = {it.gateway for it in status.tunnels if it.state == local_pb2.TUNNEL_STATE_SILENT}
    error = CulvertError.from_proto(status.last_error)
    for gateway in sorted(silent):
        if error.reason is Reason.TUNNEL_BLOCKED and error.fields["gateway"] == gateway:
            yield fault("gateway", error)
            continue
        said = _("{gateway} does not answer this computer.").format(gateway=gateway)
        yield Verdict("gateway", False, said, _("Try another network, or tell your administrator."))
    told = silent | narrow.keys()
    online = [gateway.name for gateway in status.gateways if gateway.online and gateway.name not in told]
    if status.selected_gateway and status.selected_gateway not in (*online, *told):
        yield Verdict(
            "gateway",
            False,
            _("{gateway}, which you chose, is offline.").format(gateway=status.selected_gateway),
            _("Let Culvert choose a gateway."),
            _("Run: culvert use auto"),
        )
    elif online:
        yield Verdict("gateway", True, _("Online: {gateways}.").format(gateways=", ".join(online)))
    elif not told:
        yield Verdict("gateway", False, _("No gateway is online."), _("Tell your administrator."))


def _collisions(status: local_pb2.Status, interfaces: Mapping[str, Sequence[Interface]]) -> Iterator[Verdict]:
    warnings = map(CulvertError.from_proto, status.warnings)
    collisions = [it for it in warnings if it.reason in _COLLISIONS]
    for error in collisions:
        yield fault("addresses", error)
    found = bool(collisions)
    for resource in status.resources:
        for prefix in _networks(resource.addresses):
            for device in (it for it, own in interfaces.items() if _in_network(prefix, own)):
                found = True
                said = _("{name} ({prefix}) lies in the network behind {device}.")
                yield Verdict(
                    "addresses",
                    False,
                    said.format(name=resource.fqdn, prefix=prefix, device=device),
                    _(
                        "While its tunnel is up, that part of your network cannot be reached. Use another network."
                    ),
                )
    if not found:
        said = _("No address behind a tunnel lies in a network of this computer.")
        yield Verdict("addresses", True, said)


def _in_network(prefix: IPv4Network | IPv6Network, own: Iterable[Interface]) -> bool:
    """Whether a network of these addresses overlaps the prefix."""
    return any(it.version == prefix.version and it.network.overlaps(prefix) for it in own)


def _networks(texts: Iterable[str]) -> Iterator[IPv4Network | IPv6Network]:
    for text in texts:
        # Skip an invalid address: no packet can match it.
        with suppress(ValueError):
            yield ip_network(text, strict=False)


def _drops(status: local_pb2.Status) -> Iterator[Verdict]:
    for tunnel in status.tunnels:
        if tunnel.packets_out >= _UNANSWERED and not tunnel.packets_in:
            said = _("{name}: {count} packets went to {gateway}, and none came back.")
            yield Verdict(
                "packets",
                False,
                said.format(name=tunnel.fqdn, count=tunnel.packets_out, gateway=tunnel.gateway),
                _("UDP port 4500 may be closed on the way. Try another network."),
            )
        if causes := drops(tunnel.drops):
            yield Verdict(
                "packets",
                False,
                _("{name} dropped {causes}.").format(name=tunnel.fqdn, causes=causes),
                _("Close the tunnel; it opens again when it is used."),
                _("Run: culvert close {name}").format(name=tunnel.fqdn),
            )
