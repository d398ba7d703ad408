"""`culvert doctor`: from what the daemon says and what this computer shows to a verdict and a remedy for each hop. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_network

from culvert_proto import local_pb2

Interface = IPv4Interface | IPv6Interface


@dataclass(frozen=True, slots=True)
class Seen:
    """`canary` is whether the system's resolver knows Firefox's canary, which the stub denies; None when it is silent.
    `interfaces` are this computer's addresses by device, without our own devices."""

    canary: bool | None
    interfaces: Mapping[str, Sequence[Interface]]


@dataclass(frozen=True, slots=True)
class Verdict:
    hop: str
    good: bool
    what: str
    remedy: str = ""


def verdicts(status: local_pb2.Status, seen: Seen, now: float) -> Iterator[Verdict]:
    """`now` in Unix seconds. What the caller may not see is not judged."""
    yield Verdict("daemon", True, f"culvertd {status.version} runs; packets go the {status.datapath} way.")
    yield _dns_path(seen.canary)
    if status.state == local_pb2.STATE_NOT_ENROLLED:
        yield Verdict(
            "enrolment", False, "This computer is not enrolled.", "Open your invitation: culvert enroll."
        )
        return
    if status.state == local_pb2.STATE_OFFLINE:
        error = status.last_error
        yield Verdict("controller", False, error.message or "The controller cannot be reached.", error.remedy)
    elif status.state == local_pb2.STATE_PAUSED:
        yield Verdict("pause", False, "Culvert is paused: it opens no tunnel.", "culvert resume")
    else:
        yield Verdict("controller", True, f"{status.controller} answers.")
    if not status.user:
        yield Verdict("rest", True, "Only the one who enrolled this computer and root see more.")
        return
    if status.code_valid_until > now:
        yield Verdict("code", True, f"Valid for {round((status.code_valid_until - now) / 60)} min.")
    else:
        yield Verdict("code", False, "No valid code.", "Enter one: culvert code.")
    yield _gateways(status)
    yield from _collisions(status, seen.interfaces)
    yield from _drops(status)
    if status.HasField("last_error") and status.state != local_pb2.STATE_OFFLINE:
        yield Verdict("last refusal", False, status.last_error.message, status.last_error.remedy)


def _dns_path(canary: bool | None) -> Verdict:
    if canary is None:
        return Verdict("DNS path", False, "The system's name service does not answer.", "Restart culvertd.")
    if canary:
        return Verdict(
            "DNS path",
            False,
            "Names are asked around culvertd.",
            "Restart culvertd, or see dns_upstream in its settings.",
        )
    return Verdict("DNS path", True, "Names are asked through culvertd.")


def _gateways(status: local_pb2.Status) -> Verdict:
    online = [gateway.name for gateway in status.gateways if gateway.online]
    if not online:
        return Verdict("gateway", False, "No gateway is online.", "Tell your administrator.")
    if status.selected_gateway and status.selected_gateway not in online:
        return Verdict(
            "gateway", False, f"{status.selected_gateway}, which you chose, is offline.", "culvert use auto"
        )
    return Verdict("gateway", True, f"Online: {', '.join(online)}.")


def _collisions(status: local_pb2.Status, interfaces: Mapping[str, Sequence[Interface]]) -> Iterator[Verdict]:
    found = False
    for resource in status.resources:
        for prefix in _networks(resource.addresses):
            for device, addresses in interfaces.items():
                if any(own.version == prefix.version and own.network.overlaps(prefix) for own in addresses):
                    found = True
                    yield Verdict(
                        "addresses", False, f"{resource.fqdn} ({prefix}) lies in the network behind {device}.",
                        "While its tunnel is up, that part of your network cannot be reached. Use another network.",
                    )  # fmt: skip
    if not found:
        yield Verdict("addresses", True, "No resource lies in a network that this computer is in.")


def _networks(texts: Iterable[str]) -> Iterator[IPv4Network | IPv6Network]:
    for text in texts:
        # What is no address carries no packets either.
        with suppress(ValueError):
            yield ip_network(text, strict=False)


def _drops(status: local_pb2.Status) -> Iterator[Verdict]:
    for tunnel in status.tunnels:
        causes = ", ".join(f"{count} {cause}" for cause, count in sorted(tunnel.drops.items()) if count)
        if causes:
            yield Verdict(
                "packets",
                False,
                f"{tunnel.fqdn} dropped {causes}.",
                f"Open it anew: culvert close {tunnel.fqdn}.",
            )
