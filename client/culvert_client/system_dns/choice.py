"""Which part of a Linux system has the say in name service, and what a resolv.conf says. Pure.

resolv.conf leads to           and                    then
───────────────────────────    ───────────────────    ───────────────────────────────────────────────────────────────
resolved's stub                resolved runs          RESOLVED: our zones are routed to the stub, the rest stays
what resolvconf wrote          it is installed        RESOLVCONF, OPENRESOLV: the stub is one more source, the first
what NetworkManager wrote      it runs                NETWORK_MANAGER: told to leave the file alone, then as FILE
anything else                                         FILE: replaced
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import ip_address

from culvert_client.config import DNS_PORT, Endpoint

RESOLVED_NAME = "org.freedesktop.resolve1"
NETWORK_MANAGER_NAME = "org.freedesktop.NetworkManager"
# systemd-resolved.service(8): its stubs, the second one without its own changes to answers.
RESOLVED_STUBS = frozenset({"127.0.0.53", "127.0.0.54"})

MARK = "# Written by culvertd, which puts back what was here before when it stops.\n"
# resolv.conf(5): what else it may say that stays valid with another name server.
_KEPT = ("search", "domain", "options", "sortlist")


class Way(enum.Enum):
    RESOLVED = "systemd-resolved"
    NETWORK_MANAGER = "NetworkManager"
    RESOLVCONF = "resolvconf"
    OPENRESOLV = "openresolv"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Facts:
    """`text` is /etc/resolv.conf's, empty without one; `target` where it leads if it is a link; `on_bus` are the names on
    the system bus; `resolvconf` is the implementation that is installed."""

    text: str
    target: str | None = None
    on_bus: Collection[str] = ()
    resolvconf: Way | None = None


def choose(facts: Facts) -> Way:
    servers = name_servers(facts.text)
    if servers and RESOLVED_STUBS.issuperset(servers) and RESOLVED_NAME in facts.on_bus:
        return Way.RESOLVED
    if facts.resolvconf is not None and _made_by("resolvconf", facts):
        return facts.resolvconf
    if NETWORK_MANAGER_NAME in facts.on_bus and _made_by("NetworkManager", facts):
        return Way.NETWORK_MANAGER
    return Way.FILE


def name_servers(text: str) -> list[str]:
    """The addresses in a resolv.conf, in order; what is no address is left out, as resolv.conf(5) does."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        keyword, *rest = line.split() or [""]
        if keyword == "nameserver" and rest and _is_address(rest[0]):
            found[rest[0]] = None
    return list(found)


def upstreams(texts: Iterable[str], stub: str) -> tuple[Endpoint, ...]:
    """The name servers to forward to: never the stub itself."""
    found = dict.fromkeys(server for text in texts for server in name_servers(text) if server != stub)
    return tuple(Endpoint(server, DNS_PORT) for server in found)


def pointed_at(stub: str, before: str) -> str:
    """A resolv.conf with the stub alone: a second server would answer what the first one refuses."""
    kept = (line for line in before.splitlines() if line.split(maxsplit=1)[:1] and line.split()[0] in _KEPT)
    return "".join([MARK, f"nameserver {stub}\n", *(f"{line.strip()}\n" for line in kept)])


def _made_by(program: str, facts: Facts) -> bool:
    if facts.target is not None:
        return f"/{program}/" in facts.target
    comments = (line for line in facts.text.splitlines() if line.startswith("#"))
    return any(program in line and "enerated" in line for line in comments)


def _is_address(text: str) -> bool:
    try:
        return bool(ip_address(text))
    except ValueError:
        return False
