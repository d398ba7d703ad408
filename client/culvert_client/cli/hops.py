"""`culvert doctor`: a verdict and a remedy for each hop that the daemon has examined. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.phrases import duration

from culvert_client.cli.language import _
from culvert_client.cli.verdict import Verdict, fault

# Our tunables: seconds of clock difference, and the last share of a lifetime, in which a certificate should be renewed.
CLOCK_TOLERANCE = 60
UNRENEWED_PART = 0.25


def clock(seen: local_pb2.ExamineResponse) -> Verdict:
    if not seen.HasField("clock_ahead"):
        return Verdict(
            "clock",
            False,
            _("The controller's web server did not say what time it is."),
            _("Check that this computer reaches the controller's address in a browser."),
        )
    wrong = abs(seen.clock_ahead)
    if wrong <= CLOCK_TOLERANCE:
        return Verdict(
            "clock", True, _("Within {time} of the controller's.").format(time=duration(max(wrong, 1)))
        )
    said = (
        _("This computer's clock is {time} behind the controller's.")
        if seen.clock_ahead > 0
        else _("This computer's clock is {time} ahead of the controller's.")
    )
    return Verdict(
        "clock",
        False,
        said.format(time=duration(wrong)),
        _("Set the clock."),
        _("Run: timedatectl set-ntp true"),
    )


def certificate(seen: local_pb2.ExamineResponse, now: float) -> Verdict:
    left, life = seen.certificate_until - now, seen.certificate_until - seen.certificate_from
    if left <= 0:
        # Use the controller's own error, if any: it says whether a code helps.
        told = CulvertError.from_proto(seen.controller_error)
        if told.reason is not Reason.RENEWAL_TOO_LATE:
            told = CulvertError(Reason.CERTIFICATE_EXPIRED)
        return fault("certificate", told)
    if now < seen.certificate_from:
        return Verdict(
            "certificate", False, _("This computer's certificate is not valid yet."), _("Set the clock.")
        )
    shown = duration(left)
    if left < life * UNRENEWED_PART:
        return Verdict(
            "certificate",
            False,
            _("This computer's certificate expires in {shown} and was not renewed.").format(shown=shown),
            _("Culvert renews it when the controller can be reached."),
        )
    return Verdict("certificate", True, _("Valid for {shown}; it is renewed by itself.").format(shown=shown))


def mtu(seen: local_pb2.ExamineResponse) -> Iterator[Verdict]:
    """No verdict for gateways without any answer: the network may block pings."""
    outside = {path.name: path.mtu for path in seen.gateways if path.mtu}
    narrow = False
    for path in seen.tunnels:
        wide = outside.get(path.gateway, 0)
        if 0 < wide < path.outer:
            narrow = True
            said = _("Packets of up to {wide} bytes reach {gateway}; {name} needs up to {needed}.")
            remedy = _(
                "Large pages may hang. Ask your administrator to set the MTU of {gateway}'s outer port to {wide}."
            )
            yield Verdict(
                "MTU",
                False,
                said.format(gateway=path.gateway, wide=wide, name=path.fqdn, needed=path.outer),
                remedy.format(wide=wide, gateway=path.gateway),
            )
        elif 0 < path.answered < path.mtu:
            narrow = True
            said = _("{name} answers packets of up to {answered} bytes, but its tunnel carries {mtu}.")
            remedy = _(
                "Large pages may hang. Tell your administrator: the limit is behind {gateway}, or on the way to it."
            )
            yield Verdict(
                "MTU",
                False,
                said.format(name=path.fqdn, answered=path.answered, mtu=path.mtu),
                remedy.format(gateway=path.gateway),
            )
    if outside and not narrow:
        reached = ", ".join(f"{name} {size}" for name, size in outside.items())
        yield Verdict("MTU", True, _("Largest packets, in bytes: {reached}.").format(reached=reached))


def txt(seen: local_pb2.ExamineResponse) -> Iterator[Verdict]:
    silent = [name.fqdn for name in seen.names if not name.answered]
    failed = {name.rcode for name in seen.names if name.answered and name.rcode}
    bare = [name.fqdn for name in seen.names if name.answered and not name.rcode and not name.marked]
    if silent:
        what = _("The name server does not answer for {names}.").format(names=", ".join(silent))
        yield Verdict("TXT", False, what, _("Try another network, or tell your administrator."))
    for rcode in sorted(failed):
        names = ", ".join(name.fqdn for name in seen.names if name.rcode == rcode)
        what = _("The name server answers {rcode} for {names}.").format(rcode=rcode, names=names)
        remedy = _("These pages cannot open. Try another network, or tell your administrator.")
        yield Verdict("TXT", False, what, remedy)
    if bare:
        yield Verdict(
            "TXT",
            False,
            _("The name server does not say that a tunnel is needed for {names}.").format(
                names=", ".join(bare)
            ),
            _(
                "The tunnel opens anyway. Tell your administrator: the zone lacks the TXT record, or a resolver on the "
                "way removes it."
            ),
        )
    if seen.names and not silent and not failed and not bare:
        yield Verdict("TXT", True, _("The name server says for each name that a tunnel is needed."))


def watch_mode(canary: bool | None) -> Verdict:
    """`canary`: as in `Seen`."""
    if canary is None:
        return Verdict(
            "watch mode",
            False,
            _("The system's name service does not answer."),
            _("Check the network's DNS."),
        )
    return Verdict(
        "watch mode",
        True,
        _("Culvert only watches names; the first connection to a name may have to be tried again."),
        _("Turn DNS over HTTPS off in your browsers: Culvert cannot watch it.") if canary else "",
    )
