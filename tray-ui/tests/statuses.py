"""Statuses that the tests share."""

from __future__ import annotations

from importlib.metadata import version

from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.phrases import Phrase

NOW = 1_800_000_000.0


def _program(name: str) -> Phrase:
    return Phrase("{name} (process {number})", name=name, number=812)


def status(
    state: local_pb2.State.ValueType, *, now: float = NOW, code_seconds: float = 5 * 3600 + 12 * 60
) -> local_pb2.Status:
    """Enrolled as alice, two gateways, three resources."""
    return local_pb2.Status(
        state=state,
        user="alice",
        device_name="laptop",
        controller="192.0.2.10:8444",
        version=version("culvert-client"),
        datapath="kernel",
        code_valid_until=int(now + code_seconds) if code_seconds else 0,
        gateways=[
            local_pb2.Gateway(name="gw-berlin", address="198.51.100.2", online=True, rtt_us=12_400),
            local_pb2.Gateway(name="gw-paris", address="198.51.100.3", online=False),
        ],
        resources=[
            local_pb2.Resource(name=name, fqdn=f"{name}.corp.example", addresses=[f"10.20.0.{10 + i}"])
            for i, name in enumerate(("wiki", "git", "mail"))
        ],
    )


def tunnel(name: str, state: local_pb2.TunnelState.ValueType, *, now: float = NOW) -> local_pb2.Tunnel:
    return local_pb2.Tunnel(
        tunnel_id=f"t-{name}", resource=name, fqdn=f"{name}.corp.example", gateway="gw-berlin", state=state,
        inner_address="10.99.0.7", remote_prefixes=["10.20.0.10/32"], since_ms=int((now - 4000) * 1000),
        packets_in=812, packets_out=640, bytes_in=1_204_332, bytes_out=88_120, generation=3, drops={"replay": 2, "icv": 0},
        page=f"http://{name}.corp.example/",
    )  # fmt: skip


def wrong_clock(*, now: float = NOW) -> local_pb2.Status:
    """No connection, because this computer's clock is two hours ahead."""
    found = status(local_pb2.STATE_OFFLINE, now=now)
    found.last_error.CopyFrom(CulvertError(Reason.CLOCK_WRONG, apart="2 h").to_proto())
    return found


def expired(*, now: float = NOW) -> local_pb2.Status:
    """The certificate has expired, though the last code has not."""
    found = status(local_pb2.STATE_NEEDS_CODE, now=now)
    found.last_error.CopyFrom(CulvertError(Reason.CERTIFICATE_EXPIRED).to_proto())
    return found


def opening(name: str) -> local_pb2.Tunnel:
    """As the daemon shows a tunnel that the controller has not granted yet."""
    return local_pb2.Tunnel(fqdn=f"{name}.corp.example", state=local_pb2.TUNNEL_STATE_OPENING)


def connected(*, now: float = NOW) -> local_pb2.Status:
    """Two tunnels up."""
    found = status(local_pb2.STATE_CONNECTED, now=now)
    found.tunnels.extend([tunnel(name, local_pb2.TUNNEL_STATE_UP, now=now) for name in ("wiki", "git")])
    return found


def wildcard(*, now: float = NOW) -> local_pb2.Status:
    """Connected, also through the tunnel of every name below dev.corp.example."""
    found = connected(now=now)
    found.resources.add(name="dev", fqdn="*.dev.corp.example")
    found.tunnels.append(tunnel("*.dev", local_pb2.TUNNEL_STATE_UP, now=now))
    found.tunnels[-1].page = ""
    return found


def long_names(*, now: float = NOW) -> local_pb2.Status:
    """Connected; person, computer, gateway, controller and resource have names as long as they may be."""
    found = connected(now=now)
    found.user, found.device_name = "parents-who-like-names-" * 6, "d" * 63
    found.controller = f"https://vpn.{'.'.join(['y' * 60] * 3)}:8443"
    gateway = found.tunnels[0].gateway = found.gateways[0].name = found.selected_gateway = f"gw-{'x' * 60}"
    found.resources[0].fqdn = found.tunnels[0].fqdn = ".".join(["l" * 60] * 4)
    error = CulvertError(Reason.GATEWAY_SILENT, gateway=gateway, name=found.tunnels[0].fqdn)
    found.last_error.CopyFrom(error.to_proto())
    return found


def opened(*, now: float = NOW, page: float | None = None) -> local_pb2.Status:
    """A tunnel that was opened a minute ago. `page`: the seconds of its page, None before a measurement."""
    found = connected(now=now)
    click = found.clicks.add(fqdn="wiki.corp.example", started_us=round((now - 60) * 1e6))
    steps = (
        ("query", 0), ("request", 100), ("answered", 3_000), ("decided", 8_000), ("programmed", 20_000),
        ("reply", 30_000), ("sas_in", 32_000), ("released", 33_000),
    )  # fmt: skip
    click.steps.extend(local_pb2.Step(name=name, at_us=at) for name, at in steps)
    if page is not None:
        timed = found.hop_times.add(fqdn=click.fqdn, at_ms=round(now * 1e3))
        hops = (
            (local_pb2.HOP_KIND_SERVER, 0.021),
            (local_pb2.HOP_KIND_PAGE, page),
        )
        timed.hops.extend(
            local_pb2.HopTime(kind=kind, result=local_pb2.HOP_RESULT_ANSWERED, us=round(seconds * 1e6))
            for kind, seconds in hops
        )
    return found


def through(gateway: str, *, now: float = NOW) -> local_pb2.Status:
    """Connected, the first tunnel by this gateway."""
    found = connected(now=now)
    found.tunnels[0].gateway = gateway
    return found


def many_gateways(*, now: float = NOW) -> local_pb2.Status:
    """Connected through gw-07, the farthest of 60 gateways that are online; gw-00 is not."""
    found = connected(now=now)
    del found.gateways[:]
    for number in range(60):
        rtt_us = 90_000 if number == 7 else (60 - number) * 1_000
        found.gateways.add(
            name=f"gw-{number:02}", address=f"198.51.100.{number}", online=number > 0, rtt_us=rtt_us
        )
    for one in found.tunnels:
        one.gateway = "gw-07"
    return found


def silent(*, now: float = NOW) -> local_pb2.Status:
    """Two tunnels whose gateway does not answer."""
    found = status(local_pb2.STATE_GATEWAY_SILENT, now=now)
    for name in ("wiki", "git"):
        found.tunnels.append(tunnel(name, local_pb2.TUNNEL_STATE_SILENT, now=now))
        found.tunnels[-1].heard_ms = int((now - 70) * 1000)
    error = CulvertError(Reason.GATEWAY_SILENT, gateway="gw-berlin", name="wiki.corp.example")
    found.last_error.CopyFrom(error.to_proto())
    return found


def narrow(*, now: float = NOW) -> local_pb2.Status:
    """A tunnel on a path that carries only small packets."""
    found = status(local_pb2.STATE_PATH_NARROW, now=now)
    found.tunnels.append(tunnel("wiki", local_pb2.TUNNEL_STATE_NARROW, now=now))
    found.tunnels[0].heard_ms = int((now - 2) * 1000)
    error = CulvertError(Reason.PATH_NARROW, gateway="gw-berlin", name="wiki.corp.example")
    found.last_error.CopyFrom(error.to_proto())
    return found


def two_organisations(*, now: float = NOW) -> local_pb2.Status:
    """A tunnel that is up; another that needs a code, and whose gateway has the same name."""
    found = status(local_pb2.STATE_CONNECTED, now=now)
    found.tunnels.append(tunnel("wiki", local_pb2.TUNNEL_STATE_UP, now=now))
    found.gateways.append(local_pb2.Gateway(name="gw-berlin", address="203.0.113.2", online=True))
    found.resources.append(
        local_pb2.Resource(name="wiki", fqdn="wiki.beta.example", addresses=["10.30.0.10"])
    )
    for one in (*found.tunnels, *found.gateways, *found.resources):
        one.organisation = "vpn.corp.example"
    found.gateways[-1].organisation = found.resources[-1].organisation = "vpn.beta.example"
    found.organisations.extend(
        [
            local_pb2.Organisation(
                name="vpn.corp.example", state=local_pb2.STATE_CONNECTED, user="alice", device_name="laptop",
                controller="https://vpn.corp.example:443", code_valid_until=found.code_valid_until,
            ),
            local_pb2.Organisation(
                name="vpn.beta.example", state=local_pb2.STATE_NEEDS_CODE, user="bea", device_name="laptop",
                controller="https://vpn.beta.example:443",
            ),
        ]
    )  # fmt: skip
    return found


def blocked(*, now: float = NOW) -> local_pb2.Status:
    """Another program has the port that tunnels need."""
    found = status(local_pb2.STATE_BLOCKED, now=now)
    error = CulvertError(Reason.UDP_PORT_TAKEN, what=_program("charon"), port=4500)
    found.warnings.append(error.to_proto())
    return found


def unheard(*, now: float = NOW) -> local_pb2.Status:
    """Another program has the port at which names are answered."""
    found = connected(now=now)
    error = CulvertError(
        Reason.DNS_PORT_UNUSABLE,
        port=53,
        host="127.0.0.1",
        why=Phrase("{what} has it", what=_program("dnsmasq")),
    )
    found.warnings.append(error.to_proto())
    return found


def asking(*, now: float = NOW) -> local_pb2.Status:
    """The organisation wants to carry public networks, of which some have an answer."""
    found = status(local_pb2.STATE_READY, now=now)
    found.agreed_prefixes.extend(["9.9.9.0/24"])
    found.declined_prefixes.extend(["1.1.1.0/24", "1.0.0.0/24"])
    found.awaiting_prefixes.extend(["8.8.8.0/24", "2606:4700::/32", "17.0.0.0/8"])
    return found


def paused(*, now: float = NOW) -> local_pb2.Status:
    found = status(local_pb2.STATE_PAUSED, now=now)
    found.paused_until = int(now + 900)
    return found


def activities(*, now: float = NOW) -> list[local_pb2.Activity]:
    """Past events, oldest first."""
    error = CulvertError(Reason.NO_POLICY, user="alice", name="git.corp.example", owner="bob@corp.example")
    told = [
        local_pb2.Activity(kind=local_pb2.ACTIVITY_KIND_CODE_PROVEN),
        local_pb2.Activity(
            kind=local_pb2.ACTIVITY_KIND_TUNNEL_UP, fqdn="wiki.corp.example", gateway="gw-paris"
        ),
        local_pb2.Activity(
            kind=local_pb2.ACTIVITY_KIND_FAILED_OVER,
            fqdn="wiki.corp.example",
            gateway="gw-berlin",
            gateway_before="gw-paris",
        ),
        local_pb2.Activity(
            kind=local_pb2.ACTIVITY_KIND_DENIED, fqdn="git.corp.example", error=error.to_proto()
        ),
    ]
    for number, one in enumerate(told, 1):
        one.number, one.at_ms = number, int((now - 60 * (5 - number)) * 1000)
    return told


def denied(*, now: float = NOW) -> local_pb2.Status:
    found = status(local_pb2.STATE_READY, now=now)
    error = CulvertError(Reason.NO_POLICY, user="alice", name="git.corp.example", owner="bob@corp.example")
    found.last_error.CopyFrom(error.to_proto())
    return found
