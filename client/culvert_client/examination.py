"""Examines each hop to a resource, for the verdicts of `culvert doctor` (local.proto, ExamineResponse)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address

import dns.rcode
from cryptography import x509
from culvert_proto import Reason, local_pb2
from culvert_proto.dns_name import is_wildcard
from culvert_proto.sa import outer_length

from culvert_client.controller.clock import clock_ahead
from culvert_client.controller.handshake import fault
from culvert_client.controller.renewal import why_not_late
from culvert_client.core import dns_wire
from culvert_client.core.grant import Address, Tunnel
from culvert_client.core.path_mtu import LENGTHS
from culvert_client.core.profile import Profile
from culvert_client.ping import Ping, ping
from culvert_client.platform.interfaces import DaemonPlatform, PingSockets
from culvert_client.state_dir import Identity
from culvert_client.stub.upstream import Upstream

# The lengths up to Ethernet's MTU.
_LENGTHS = tuple(it for it in LENGTHS if it <= 1500)
# Our tunable: the most gateways, tunnels and names to examine.
AT_MOST = 16


async def examine(
    identity: Identity,
    profile: Profile,
    tunnels: Sequence[Tunnel],
    upstream: Upstream,
    reach: Callable[[str], str],
    platform: DaemonPlatform,
    *,
    probe: tuple[str, str] | None,
) -> local_pb2.ExamineResponse:
    """`tunnels`: those in the datapath; `reach`: a gateway's address on this network (nat64_reach.py).

    `probe`: a name and its address that only the stub knows; None in watch mode.
    """
    certificate = x509.load_pem_x509_certificate(identity.certificate_pem)
    gateways = [it for it in profile.gateways if it.online][:AT_MOST]
    carrying = [it for it in tunnels if it.remote_prefixes][:AT_MOST]
    ahead, error, outside, inside, names = await asyncio.gather(
        clock_ahead(identity.controller, identity.ca_pem, reach),
        fault(identity, profile.device_name, platform.process, reach),
        _longest(
            platform.ping_sockets, {it.name: (ip_address(reach(it.address)), _LENGTHS) for it in gateways}
        ),
        _longest(
            platform.ping_sockets,
            {it.tunnel_id: (it.any_host, (it.mtu, *_shorter(it.mtu))) for it in carrying},
        ),
        asyncio.gather(*(_ask(upstream, fqdn) for fqdn in _names(profile))),
    )
    if error is not None and error.reason is Reason.CERTIFICATE_EXPIRED:
        error = await why_not_late(identity, reach) or error
    name, address = probe or ("", "")
    return local_pb2.ExamineResponse(
        watches=probe is None,
        probe_name=name,
        probe_address=address,
        controller_error=error.to_proto() if error is not None else None,
        clock_ahead=ahead,
        certificate_from=round(certificate.not_valid_before_utc.timestamp()),
        certificate_until=round(certificate.not_valid_after_utc.timestamp()),
        gateways=[local_pb2.GatewayPath(name=it.name, mtu=outside.get(it.name, 0)) for it in gateways],
        tunnels=[
            local_pb2.TunnelPath(
                fqdn=it.fqdn,
                gateway=it.gateway,
                mtu=it.mtu,
                outer=outer_length(it.mtu, it.outer_address.version),
                answered=inside.get(it.tunnel_id, 0),
            )
            for it in carrying
        ],
        names=names,
    )


async def _longest(sockets: PingSockets, targets: dict[str, tuple[Address, Iterable[int]]]) -> dict[str, int]:
    """The longest answered packet by target; all lengths are sent at once."""
    pings = {name: [Ping(address, it) for it in lengths] for name, (address, lengths) in targets.items()}
    try:
        answered = await ping(sockets, {*itertools.chain.from_iterable(pings.values())})
    except OSError:
        return {}
    return {
        name: max((it.length for it in sent if it in answered), default=0) for name, sent in pings.items()
    }


def _shorter(mtu: int) -> list[int]:
    return [it for it in _LENGTHS if it < mtu]


def _names(profile: Profile) -> list[str]:
    return [it.fqdn for it in profile.resources if not is_wildcard(it.fqdn)][:AT_MOST]


async def _ask(upstream: Upstream, fqdn: str) -> local_pb2.NameAnswer:
    query = dns_wire.query(fqdn, "TXT")
    reply = await upstream.exchange(query) if query is not None else None
    if reply is None:
        return local_pb2.NameAnswer(fqdn=fqdn)
    rcode = dns_wire.rcode_of(reply)
    return local_pb2.NameAnswer(
        fqdn=fqdn,
        answered=True,
        marked=dns_wire.read_marked_name(reply) == fqdn,
        rcode="" if rcode == dns.rcode.NOERROR else dns.rcode.to_text(dns.rcode.Rcode(rcode)),
    )
