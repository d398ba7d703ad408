"""`culvert doctor`: from what the daemon says and what this computer shows to a verdict and a remedy for each hop. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_network

from culvert_proto import CulvertError, local_pb2

from culvert_client.cli import hops
from culvert_client.cli.language import _
from culvert_client.cli.verdict import Verdict

Interface = IPv4Interface | IPv6Interface


@dataclass(frozen=True, slots=True)
class Seen:
    """`canary` is whether the system's resolver knows Firefox's canary, which the stub denies; None when it is silent.
    `interfaces` are this computer's addresses by device, without our own devices. `examined` is None where the daemon
    tells the caller nothing."""

    canary: bool | None
    interfaces: Mapping[str, Sequence[Interface]]
    examined: local_pb2.ExamineResponse | None = None


# Our tunable: packets of which at least one should have been answered.
_UNANSWERED = 10


def verdicts(status: local_pb2.Status, seen: Seen, now: float) -> Iterator[Verdict]:
    """`now` in Unix seconds. What the caller may not see is not judged."""
    yield Verdict(
        "daemon",
        True,
        _("culvertd {version} runs; packets go the {datapath} way.").format(
            version=status.version, datapath=status.datapath
        ),
    )
    examined = seen.examined
    yield hops.watch_mode(seen.canary) if examined and examined.watches else _dns_path(seen.canary)
    if status.state == local_pb2.STATE_NOT_ENROLLED:
        yield Verdict(
            "enrolment",
            False,
            _("This computer is not enrolled."),
            _("Open your invitation: culvert enroll."),
        )
        return
    if status.state == local_pb2.STATE_OFFLINE:
        error = CulvertError.from_proto(status.last_error)
        said = error.message or _("The controller cannot be reached.")
        yield Verdict("controller", False, said, error.remedy)
    elif status.state == local_pb2.STATE_PAUSED:
        yield Verdict("pause", False, _("Culvert is paused: it opens no tunnel."), "culvert resume")
    else:
        yield Verdict("controller", True, _("{controller} answers.").format(controller=status.controller))
    if examined is not None:
        yield hops.clock(examined)
        yield hops.certificate(examined, now)
    if not status.user:
        yield Verdict("rest", True, _("Only the one who enrolled this computer and root see more."))
        return
    if status.code_valid_until > now:
        yield Verdict(
            "code",
            True,
            _("Valid for {minutes} min.").format(minutes=round((status.code_valid_until - now) / 60)),
        )
    else:
        yield Verdict("code", False, _("No valid code."), _("Enter one: culvert code."))
    yield _gateways(status)
    if examined is not None:
        yield from hops.mtu(examined)
    yield from _collisions(status, seen.interfaces)
    if examined is not None:
        yield from hops.txt(examined)
    if status.awaiting_prefixes:
        waiting = _("{prefixes} are public and wait for your answer.")
        yield Verdict(
            "public networks",
            False,
            waiting.format(prefixes=", ".join(status.awaiting_prefixes)),
            _("Look at them and decide: culvert agree."),
        )
    yield from _drops(status)
    if status.HasField("last_error") and status.state != local_pb2.STATE_OFFLINE:
        error = CulvertError.from_proto(status.last_error)
        yield Verdict("last refusal", False, error.message, error.remedy)


def _dns_path(canary: bool | None) -> Verdict:
    if canary is None:
        return Verdict(
            "DNS path", False, _("The system's name service does not answer."), _("Restart culvertd.")
        )
    if canary:
        return Verdict(
            "DNS path",
            False,
            _("Names are asked around culvertd."),
            _("Restart culvertd, or see dns_upstream in its settings."),
        )
    return Verdict("DNS path", True, _("Names are asked through culvertd."))


def _gateways(status: local_pb2.Status) -> Verdict:
    online = [gateway.name for gateway in status.gateways if gateway.online]
    if not online:
        return Verdict("gateway", False, _("No gateway is online."), _("Tell your administrator."))
    if status.selected_gateway and status.selected_gateway not in online:
        return Verdict(
            "gateway",
            False,
            _("{gateway}, which you chose, is offline.").format(gateway=status.selected_gateway),
            "culvert use auto",
        )
    return Verdict("gateway", True, _("Online: {gateways}.").format(gateways=", ".join(online)))


def _collisions(status: local_pb2.Status, interfaces: Mapping[str, Sequence[Interface]]) -> Iterator[Verdict]:
    found = False
    for resource in status.resources:
        for prefix in _networks(resource.addresses):
            for device, addresses in interfaces.items():
                if any(own.version == prefix.version and own.network.overlaps(prefix) for own in addresses):
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
        yield Verdict("addresses", True, _("No resource lies in a network that this computer is in."))


def _networks(texts: Iterable[str]) -> Iterator[IPv4Network | IPv6Network]:
    for text in texts:
        # What is no address carries no packets either.
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
        causes = ", ".join(f"{count} {cause}" for cause, count in sorted(tunnel.drops.items()) if count)
        if causes:
            yield Verdict(
                "packets",
                False,
                _("{name} dropped {causes}.").format(name=tunnel.fqdn, causes=causes),
                _("Open it anew: culvert close {name}.").format(name=tunnel.fqdn),
            )
