"""`culvert doctor`: a verdict and a remedy for each hop that the daemon has examined. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from culvert_proto import local_pb2

from culvert_client.cli.verdict import Verdict

# Our tunables: seconds of a clock, and the part of a certificate's life in which it should have been renewed long ago.
CLOCK_TOLERANCE = 60
UNRENEWED_PART = 0.25

_HOUR = 3600


def clock(seen: local_pb2.ExamineResponse) -> Verdict:
    if not seen.HasField("clock_ahead"):
        return Verdict(
            "clock",
            False,
            "The controller's web server did not say what time it is.",
            "Check that this computer reaches the controller's address in a browser.",
        )
    wrong = abs(seen.clock_ahead)
    if wrong <= CLOCK_TOLERANCE:
        return Verdict("clock", True, f"Within {max(wrong, 1)} s of the controller's.")
    which = "behind" if seen.clock_ahead > 0 else "ahead of"
    return Verdict(
        "clock",
        False,
        f"This computer's clock is {wrong} s {which} the controller's.",
        "Set it: timedatectl set-ntp true.",
    )


def certificate(seen: local_pb2.ExamineResponse, now: float) -> Verdict:
    left, life = seen.certificate_until - now, seen.certificate_until - seen.certificate_from
    if left <= 0:
        return Verdict(
            "certificate",
            False,
            "This computer's certificate has expired.",
            "If the clock is right: ask your administrator for a new invitation, and enrol again.",
        )
    if now < seen.certificate_from:
        return Verdict(
            "certificate", False, "This computer's certificate is not valid yet.", "Set the clock."
        )
    shown = f"{round(left / _HOUR / 24)} days" if left > 48 * _HOUR else f"{round(left / _HOUR)} h"
    if left < life * UNRENEWED_PART:
        return Verdict(
            "certificate",
            False,
            f"This computer's certificate ends in {shown} and was not renewed.",
            "It is renewed by itself where the controller can be reached.",
        )
    return Verdict("certificate", True, f"Valid for {shown}; it is renewed by itself.")


def mtu(seen: local_pb2.ExamineResponse) -> Iterator[Verdict]:
    """Nothing where nothing was answered: pings may be unwelcome there."""
    outside = {path.name: path.mtu for path in seen.gateways if path.mtu}
    narrow = False
    for path in seen.tunnels:
        wide = outside.get(path.gateway, 0)
        if 0 < wide < path.outer:
            narrow = True
            what = f"{path.gateway} is reached by up to {wide} bytes at once; {path.fqdn} needs up to {path.outer}."
            remedy = f"Large pages may hang. Ask your administrator for an MTU of {wide} at {path.gateway}'s outer port."
            yield Verdict("MTU", False, what, remedy)
        elif 0 < path.answered < path.mtu:
            narrow = True
            what = f"{path.fqdn} answers packets of up to {path.answered} bytes, and its tunnel takes {path.mtu}."
            remedy = (
                f"Large pages may hang. Tell your administrator: behind {path.gateway}, or on the way to it."
            )
            yield Verdict("MTU", False, what, remedy)
    if outside and not narrow:
        reached = ", ".join(f"{name} by {size}" for name, size in outside.items())
        yield Verdict("MTU", True, f"Bytes in one packet: {reached}.")


def txt(seen: local_pb2.ExamineResponse) -> Iterator[Verdict]:
    silent = [name.fqdn for name in seen.names if not name.answered]
    bare = [name.fqdn for name in seen.names if name.answered and not name.marked]
    if silent:
        what = f"The name server does not answer for {', '.join(silent)}."
        yield Verdict("TXT", False, what, "Try another network, or tell your administrator.")
    if bare:
        yield Verdict(
            "TXT",
            False,
            f"The name server does not say that a tunnel is needed for {', '.join(bare)}.",
            "The tunnel opens all the same. Tell your administrator: the zone, or a resolver on the way, lacks TXT.",
        )
    if seen.names and not silent and not bare:
        yield Verdict("TXT", True, f"The name server marks {len(seen.names)} of {len(seen.names)} names.")


def watch_mode(canary: bool | None) -> Verdict:
    """`canary` as in `Seen`."""
    if canary is None:
        return Verdict(
            "watch mode", False, "The system's name service does not answer.", "Check the network's DNS."
        )
    return Verdict(
        "watch mode",
        True,
        "Names are looked at as they pass; the first connection to a name may have to be tried again.",
        "Turn DNS over HTTPS off in your browsers: it cannot be looked at." if canary else "",
    )
