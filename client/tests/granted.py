"""Values as a controller grants them, for the tests of the core."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from culvert_client.core.grant import Sa, SaPair, Spi, Tunnel, TunnelId
from culvert_client.core.profile import Gateway, Profile, Resource
from culvert_proto.sa import Limits

WIKI = "wiki.corp.example"
WIKI_ADDRESS = ip_address("10.20.0.10")


def sa(number: int, soft: Limits = Limits(), hard: Limits = Limits()) -> Sa:  # noqa: B008
    return Sa(Spi(1000 + number), bytes([number % 256]) * 36, 1024, soft, hard)


def pair(generation: int = 1, soft: Limits = Limits(), hard: Limits = Limits(), drain: float = 1.0) -> SaPair:  # noqa: B008
    return SaPair(generation, sa(2 * generation, soft, hard), sa(2 * generation + 1, soft, hard), drain)


def tunnel(
    tunnel_id: str = "t1", fqdn: str = WIKI, idle: float = 0.0, prefix: str = "10.20.0.10/32"
) -> Tunnel:
    return Tunnel(
        tunnel_id=TunnelId(tunnel_id),
        resource=fqdn.partition(".")[0],
        fqdn=fqdn,
        gateway="gw-berlin",
        inner_address=ip_address("10.99.0.2"),
        remote_prefixes=(ip_network(prefix),),
        outer_address=ip_address("198.51.100.2"),
        outer_port=4500,
        idle=idle,
        mtu=1438,
    )


PROFILE = Profile(
    user="alice",
    device_name="laptop",
    managed_zones=("corp.example",),
    protected_prefixes=(ip_network("10.20.0.0/16"),),
    gateways=(Gateway("gw-berlin", "198.51.100.2", online=True),),
    resources=(Resource("wiki", WIKI, ("10.20.0.10",)),),
    code_valid_until=1 << 40,
)
