"""The demo network as data: namespaces, wires, addresses. `links.py` makes the machine equal to it.

  culvert-laptop          culvert-internet (router)                    culvert-gateway             culvert-intranet
 ┌──────────────────┐    ┌─────────────────────────────────┐          ┌──────────────────────┐    ┌───────────────┐
 │ eth0             ├────┤ laptop              gateway     ├──────────┤ wan              lan ├────┤ eth0          │
 │ 203.0.113.10/24  │    │ 203.0.113.1    198.51.100.1     │          │ (no address here:    │    │ 10.20.0.10/16 │
 └──────────────────┘    │                                 │          │  198.51.100.2 and    │    └───────────────┘
                         │ services (bridge) 192.0.2.1     │          │  10.20.0.1 live in   │
                         │   ├── controller                │          │  the P4 program)     │
                         │   └── dns                       │          │                 mgmt │ 10.255.0.2/30
                         └───┬──────────────┬──────────────┘          └──────────────────┬───┘
                   ┌─────────┴────────┐  ┌──┴──────────────┐                             │
                   │ eth0             │  │ eth0            │      P4Runtime, a wire      │
                   │ 192.0.2.10/24    │  │ 192.0.2.53/24   │      of its own             │
                   │             mgmt ├──┼─────────────────┼─────────────────────────────┘
                   └──────────────────┘  └─────────────────┘
              culvert-controller 10.255.0.1/30   culvert-dns

The router has no route to 10.20.0.0/16 and none to the inner pool: what reaches the intranet came through a tunnel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Site(StrEnum):
    """A network namespace of the lab; the value is its name under /run/netns."""

    LAPTOP = "culvert-laptop"
    INTERNET = "culvert-internet"
    GATEWAY = "culvert-gateway"
    INTRANET = "culvert-intranet"
    CONTROLLER = "culvert-controller"
    DNS = "culvert-dns"

    @property
    def short(self) -> str:
        """The name a person types: "laptop"."""
        return self.value.removeprefix("culvert-")


LAPTOP_ADDRESS = "203.0.113.10"
LAPTOP_ROUTER = "203.0.113.1"
GATEWAY_ADDRESS = "198.51.100.2"
GATEWAY_LAN_ADDRESS = "10.20.0.1"
CONTROLLER_ADDRESS = "192.0.2.10"
DNS_ADDRESS = "192.0.2.53"
WIKI_ADDRESS = "10.20.0.10"
MANAGEMENT_CONTROLLER = "10.255.0.1"
MANAGEMENT_GATEWAY = "10.255.0.2"

GATEWAY_WAN_MAC = "02:00:00:00:01:01"
ROUTER_GATEWAY_MAC = "02:00:00:00:01:02"
GATEWAY_LAN_MAC = "02:00:00:00:02:01"
WIKI_MAC = "02:00:00:00:02:10"

PROTECTED_PREFIX = "10.20.0.0/16"
INNER_POOL = "10.99.0.0/24"
ZONE = "corp.example"
WIKI_NAME = f"wiki.{ZONE}"
# A text on the intranet's page that must never be seen outside of a tunnel.
MARKER = "CULVERT-INTRANET-7f3a"

REST_PORT = 8443
AGENT_PORT = 8444
P4RUNTIME_PORT = 9559
ESP_PORT = 4500


@dataclass(frozen=True, slots=True)
class End:
    """An end of a wire. `address` is "a.b.c.d/len", or None where the kernel must have none."""

    site: Site
    name: str
    address: str | None = None
    mac: str | None = None
    bridge: str | None = None


@dataclass(frozen=True, slots=True)
class Wire:
    """A veth pair, with the kernel's offloads where the gateway's switch takes super-frames."""

    a: End
    b: End


@dataclass(frozen=True, slots=True)
class Route:
    """A default route."""

    site: Site
    via: str


@dataclass(frozen=True, slots=True)
class Bridge:
    """An Ethernet switch inside a namespace, with the router's own address on it."""

    site: Site
    name: str
    address: str


BRIDGES = (Bridge(Site.INTERNET, "services", "192.0.2.1/24"),)

WIRES = (
    Wire(
        End(Site.INTERNET, "laptop", f"{LAPTOP_ROUTER}/24"),
        End(Site.LAPTOP, "eth0", f"{LAPTOP_ADDRESS}/24"),
    ),
    Wire(
        End(Site.INTERNET, "gateway", "198.51.100.1/24", mac=ROUTER_GATEWAY_MAC),
        End(Site.GATEWAY, "wan", mac=GATEWAY_WAN_MAC),
    ),
    Wire(
        End(Site.INTERNET, "controller", bridge="services"),
        End(Site.CONTROLLER, "eth0", f"{CONTROLLER_ADDRESS}/24"),
    ),
    Wire(
        End(Site.INTERNET, "dns", bridge="services"),
        End(Site.DNS, "eth0", f"{DNS_ADDRESS}/24"),
    ),
    Wire(
        End(Site.GATEWAY, "lan", mac=GATEWAY_LAN_MAC),
        End(Site.INTRANET, "eth0", f"{WIKI_ADDRESS}/16", mac=WIKI_MAC),
    ),
    Wire(
        End(Site.CONTROLLER, "mgmt", f"{MANAGEMENT_CONTROLLER}/30"),
        End(Site.GATEWAY, "mgmt", f"{MANAGEMENT_GATEWAY}/30"),
    ),
)

ROUTES = (
    Route(Site.LAPTOP, LAPTOP_ROUTER),
    Route(Site.CONTROLLER, "192.0.2.1"),
    Route(Site.DNS, "192.0.2.1"),
    Route(Site.INTRANET, GATEWAY_LAN_ADDRESS),
)

ROUTERS = (Site.INTERNET,)


def site_of(word: str) -> Site:
    """The site of a short or full name. Raises ValueError, with the names that exist, for any other."""
    for site in Site:
        if word in (site.short, site.value):
            return site
    raise ValueError(f"no site {word!r} in the lab; there are: {', '.join(site.short for site in Site)}")
