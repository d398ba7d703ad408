"""Two home networks, each behind a NAT of its own, between which the laptop moves.

```
            ┌─ home0: culvert-home0, masquerades ── 198.18.0.2 ─┐
 laptop ────┤                                                   ├─ internet ── gateway, controller, DNS
            └─ home1: culvert-home1, masquerades ── 198.18.1.2 ─┘
```
In both of them the laptop is 192.168.1.10: nothing but the route tells it that it has moved.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from culvert_lab import netns
from culvert_lab.netns import NETNS_DIR
from culvert_lab.topology import LAPTOP_ROUTER, Site

HOMES = 2
LAPTOP, ROUTER = "192.168.1.10", "192.168.1.1"
_MASQUERADE = """
table ip home {
  chain leaving {
    type nat hook postrouting priority 100
    oifname "wan" masquerade
  }
}
"""


@dataclass(slots=True)
class Homes:
    at: int

    async def move(self) -> None:
        """To the other one: its link comes, the one before goes without a farewell."""
        await asyncio.to_thread(self._move)

    def _move(self) -> None:
        before, self.at = self.at, (self.at + 1) % HOMES
        _ip(f"-n {Site.LAPTOP} link set home{before} down")
        _arrive(self.at)


@asynccontextmanager
async def homes() -> AsyncGenerator[Homes]:
    """In a lab that is up: the laptop leaves its own wire for the first of them, and returns. Needs nft(8)."""
    try:
        await asyncio.to_thread(_build)
        yield Homes(0)
    finally:
        await asyncio.to_thread(_remove)


def _build() -> None:
    _remove()
    for home in range(HOMES):
        router = f"culvert-home{home}"
        netns.create(router)
        for own, name, address in ((Site.LAPTOP, f"home{home}", LAPTOP), (Site.INTERNET, f"home{home}", "")):
            theirs = "lan" if address else "wan"
            _ip(f"link add {name} netns {own} type veth peer name {theirs} netns {router}")
            _ip(f"-n {router} link set {theirs} up")
        _ip(f"-n {router} address add {ROUTER}/24 dev lan")
        _ip(f"-n {router} address add 198.18.{home}.2/24 dev wan")
        _ip(f"-n {router} route add default via 198.18.{home}.1")
        _ip(f"-n {Site.INTERNET} address add 198.18.{home}.1/24 dev home{home}")
        _ip(f"-n {Site.INTERNET} link set home{home} up")
        run(["ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1"])
        run(["ip", "netns", "exec", router, "nft", "-f", "-"], _MASQUERADE)
    _ip(f"-n {Site.LAPTOP} link set eth0 down")
    _arrive(0)


def _arrive(home: int) -> None:
    _ip(f"-n {Site.LAPTOP} address replace {LAPTOP}/24 dev home{home}")
    _ip(f"-n {Site.LAPTOP} link set home{home} up")
    _ip(f"-n {Site.LAPTOP} route replace default via {ROUTER} dev home{home}")


def _remove() -> None:
    for home in range(HOMES):
        # Their wires go with them.
        if (NETNS_DIR / f"culvert-home{home}").exists():
            netns.delete(f"culvert-home{home}")
    plug_in()


def plug_in() -> None:
    """The laptop's own wire."""
    _ip(f"-n {Site.LAPTOP} link set eth0 up")
    _ip(f"-n {Site.LAPTOP} route replace default via {LAPTOP_ROUTER} dev eth0")


def _ip(arguments: str) -> None:
    run(["ip", *arguments.split()])


def run(argv: list[str], stdin: str = "") -> None:
    subprocess.run(argv, input=stdin, text=True, check=True, capture_output=True)
