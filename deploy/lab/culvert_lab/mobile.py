"""A mobile network that has IPv6 alone: its router leads to IPv4 (NAT64) and names what it leads to (DNS64).

```
 laptop ── mobile: 2001:db8:64::/64 ── culvert-mobile: socat, BIND 9 ── 198.18.64.2 ── internet ── gateway, controller, DNS
```
The NAT64 is a relay for each of the lab's servers: Debian's translator, tayga 0.9.2, drops UDP without a checksum, which is
how ESP in UDP comes over IPv4 (RFC 3948 section 2.1); RFC 6146 section 3.4 has it computed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from culvert_lab import netns, process
from culvert_lab.homes import plug_in, run
from culvert_lab.lab import Lab
from culvert_lab.netns import NETNS_DIR
from culvert_lab.process import Running
from culvert_lab.topology import (
    AGENT_PORT,
    CONTROLLER_ADDRESS,
    DNS_ADDRESS,
    ESP_PORT,
    GATEWAY_ADDRESS,
    Site,
)

DNS64 = "2001:db8:64::1"
_ROUTER = "culvert-mobile"
_PREFIX = "2001:db8:64:ff9b::/96"
_RELAYED = (("UDP", GATEWAY_ADDRESS, ESP_PORT, ""), ("TCP", CONTROLLER_ADDRESS, AGENT_PORT, ",fork"))
_BIND = """
options {{
    directory "{directory}";
    pid-file none;
    session-keyfile "{directory}/session.key";
    listen-on {{ none; }};
    listen-on-v6 {{ {dns64}; }};
    recursion yes;
    allow-query {{ any; }};
    allow-recursion {{ any; }};
    forward only;
    forwarders {{ {upstream}; }};
    dnssec-validation no;
    dns64 {prefix} {{ clients {{ any; }}; }};
}};
controls {{ }};
zone "ipv4only.arpa" {{ type primary; file "{directory}/ipv4only.arpa.zone"; }};
"""
# RFC 7050 section 2; the internet's own is out of the lab's reach.
_IPV4ONLY = """\
$TTL 60
@  SOA  ns hostmaster 1 3600 600 86400 5
   NS   ns
   A    192.0.0.170
   A    192.0.0.171
ns A    192.0.0.170
"""


@asynccontextmanager
async def mobile(lab: Lab, mtu: int = 1500) -> AsyncGenerator[None]:
    """In a lab that is up: the laptop has this network beside its wire, with a default route of IPv6. Needs socat(1).

    `mtu`: of the link between laptop and router, in bytes.
    """
    directory = lab.work / "mobile"
    directory.mkdir(mode=0o777)
    bind = directory / "named.conf"
    bind.write_text(_BIND.format(directory=directory, dns64=DNS64, upstream=DNS_ADDRESS, prefix=_PREFIX))
    (directory / "ipv4only.arpa.zone").write_text(_IPV4ONLY)
    inside = ["ip", "netns", "exec", _ROUTER]
    programs: list[Running] = []
    relays = [
        ["socat", f"{kind}6-LISTEN:{port},bind=[{_embed(far)}],reuseaddr{fork}", f"{kind}4:{far}:{port}"]
        for kind, far, port, fork in _RELAYED
    ]
    try:
        await asyncio.to_thread(_build, mtu)
        for number, argv in enumerate((["named", "-f", "-c", str(bind)], *relays)):
            log = lab.work / "logs" / f"mobile-{number}.log"
            programs.append(await process.start(argv[0], [*inside, *argv], os.environ, log))
        yield
    finally:
        for program in programs:
            await program.stop()
        await asyncio.to_thread(_remove)


@contextmanager
def only_mobile() -> Generator[None]:
    """The laptop's wire, with all the IPv4 that it has, is unplugged."""
    _ip(f"-n {Site.LAPTOP} link set eth0 down")
    try:
        yield
    finally:
        plug_in()


def _build(mtu: int) -> None:
    _remove()
    netns.create(_ROUTER)
    _ip(f"link add mobile netns {Site.LAPTOP} type veth peer name lan netns {_ROUTER}")
    _ip(f"link add mobile netns {Site.INTERNET} type veth peer name wan netns {_ROUTER}")
    _ip(f"-n {_ROUTER} address add {DNS64}/64 dev lan nodad")
    _ip(f"-n {_ROUTER} address add 198.18.64.2/24 dev wan")
    _ip(f"-n {Site.INTERNET} address add 198.18.64.1/24 dev mobile")
    _ip(f"-n {Site.LAPTOP} address add 2001:db8:64::10/64 dev mobile nodad")
    _ip(f"-n {_ROUTER} link set lan mtu {mtu}")
    _ip(f"-n {Site.LAPTOP} link set mobile mtu {mtu}")
    for site, name in (
        (_ROUTER, "lan"),
        (_ROUTER, "wan"),
        (Site.INTERNET, "mobile"),
        (Site.LAPTOP, "mobile"),
    ):
        _ip(f"-n {site} link set {name} up")
    _ip(f"-n {_ROUTER} route add default via 198.18.64.1")
    _ip(f"-n {Site.LAPTOP} route add default via {DNS64} dev mobile")
    for _, far, _, _ in _RELAYED:
        _ip(f"-n {_ROUTER} address add {_embed(far)}/128 dev lan nodad")


def _embed(far: str) -> IPv6Address:
    return IPv6Network(_PREFIX)[int(IPv4Address(far))]


def _remove() -> None:
    if (NETNS_DIR / _ROUTER).exists():
        # The router's wires go with it.
        netns.delete(_ROUTER)


def _ip(arguments: str) -> None:
    run(["ip", *arguments.split()])
