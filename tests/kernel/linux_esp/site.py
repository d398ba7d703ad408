"""A site: Linux as the peer, sluice as the gateway, an office behind it, each in a network namespace.

 ns peer                  ns gateway                  ns office
┌──────────────────┐     ┌────────────────────┐     ┌──────────────────┐
│ lo   10.99.0.5   │     │       sluice       │     │                  │
│      fd99::5     │     │ 192.0.2.1          │     │                  │
│ XFRM             │     │ 2001:db8::1        │     │                  │
│ eth0 192.0.2.2   ├─────┤ wan            lan ├─────┤ eth0 10.20.0.10  │
│      2001:db8::2 │     │         10.20.0.1  │     │      fd20::10    │
└──────────────────┘     │         fd20::1    │     └──────────────────┘
                         └─────────┬──────────┘
       controller, in the test ────┘ mgmt 10.255.0.1, 10.255.0.2: P4Runtime
"""

from __future__ import annotations

import array
import fcntl
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from culvert_lab.netns import Inside

from linux_esp.controller import CLIENT_NAME
from linux_esp.entries import (
    GATEWAY,
    GATEWAY_LAN,
    INNER,
    KEK,
    LAN_MAC,
    OFFICE,
    OFFICE_MAC,
    OFFICE_PREFIX,
    PEER,
    PEER_MAC,
    WAN_MAC,
)
from linux_esp.suites import SUITES
from linux_esp.two_tuns import decapsulating
from linux_esp.xfrm import ip

ROOT = Path(__file__).parents[3]
SLUICE = ROOT / "target/release/sluice"
P4RUNTIME = "10.255.0.2:9559"
SIOCETHTOOL = 0x8946
# linux/ethtool.h: STSO, SGSO, SGRO, SSG, STXCSUM, SRXCSUM, in the order in which one needs the next.
OFFLOADS = (0x1F, 0x24, 0x2C, 0x19, 0x17, 0x15)
READY_SECONDS = 20.0


class Site:
    """The namespaces and their wires; what is in XFRM and in the gateway is the tests'."""

    def __init__(self) -> None:
        ip([f"netns add {name}" for name in ("peer", "gateway", "office")])
        self.peer, self.gateway, self.office = (Inside(name) for name in ("peer", "gateway", "office"))
        # The gateway's addresses are the P4 program's: a kernel that answered too would hide its faults.
        self.gateway.call(_sysctl, "ipv6/conf/default/disable_ipv6", "1")
        ip(
            [
                _veth("wan", "gateway", WAN_MAC, "peer", PEER_MAC),
                _veth("lan", "gateway", LAN_MAC, "office", OFFICE_MAC),
                "link add name mgmt type veth peer name mgmt netns gateway",
                "address add 10.255.0.1/30 dev mgmt",
                "link set mgmt up",
            ]
        )
        gateway_up = [f"link set {name} up" for name in ("lo", "wan", "lan", "mgmt")]
        ip([*gateway_up, "address add 10.255.0.2/30 dev mgmt"], "gateway")
        ends = ["link set lo up", "link set eth0 addrgenmode none", "link set eth0 up"]
        addresses = (f"{PEER[4]}/24 dev eth0", f"{PEER[6]}/64 dev eth0")
        ip([*ends, *_add(addresses)], "peer")
        self._give_inner_addresses()
        addresses = (f"{OFFICE[4]}/16 dev eth0", f"{OFFICE[6]}/64 dev eth0")
        routes = [f"route add default via {GATEWAY_LAN[v]}" for v in (4, 6)]
        ip([*ends, *_add(addresses), *routes], "office")
        for inside, names in (
            (self.gateway, ("wan", "lan")),
            (self.peer, ("eth0",)),
            (self.office, ("eth0",)),
        ):
            for name in names:
                inside.call(_offloads_off, name)
        families = ((socket.AF_INET, PEER[4]), (socket.AF_INET6, PEER[6]))
        self._nat_t = [self.peer.call(decapsulating, family, own) for family, own in families]

    @contextmanager
    def without_inner_addresses(self) -> Generator[None]:
        """A datapath gives them to the peer."""
        addresses = (f"address delete {INNER[4]}/32 dev lo", f"address delete {INNER[6]}/128 dev lo")
        routes = [f"route replace {OFFICE_PREFIX[v]} via {GATEWAY[v]}" for v in (4, 6)]
        ip([*addresses, *routes], "peer")
        try:
            yield
        finally:
            self._give_inner_addresses()

    def _give_inner_addresses(self) -> None:
        addresses = _add((f"{INNER[4]}/32 dev lo", f"{INNER[6]}/128 dev lo"))
        routes = [f"route replace {OFFICE_PREFIX[v]} via {GATEWAY[v]} src {INNER[v]}" for v in (4, 6)]
        ip([*addresses, *routes], "peer")

    @contextmanager
    def marking(self, outer: int) -> Generator[None]:
        """Every packet of this family between peer and gateway gets the mark of congestion (RFC 3168), both ways."""
        protocol, change = {
            4: ("ip", "munge ip tos set 3 retain 3 pipe csum ip4h"),
            6: ("ipv6", "munge ip6 traffic_class set 3 retain 3"),
        }[outer]
        filters = [
            f"{way} protocol {protocol} matchall action pedit ex {change}" for way in ("ingress", "egress")
        ]
        with _traffic_control("peer", "eth0", "clsact", filters):
            yield

    @contextmanager
    def damaging(self) -> Generator[None]:
        """Every IPv4 packet from peer to gateway has one byte wrong: the 41st, which lies in the encrypted part."""
        with _traffic_control(
            "peer", "eth0", "clsact", ["egress protocol ip matchall action pedit munge offset 40 u8 invert"]
        ):
            yield

    @contextmanager
    def disturbing(self, how: str) -> Generator[None]:
        """The wire between peer and gateway does this to all that it carries, both ways (tc-netem(8))."""
        with (
            _traffic_control("peer", "eth0", f"root netem {how}", []),
            _traffic_control("gateway", "wan", f"root netem {how}", []),
        ):
            yield


class Sluice:
    """The gateway's process."""

    def __init__(self, folder: Path) -> None:
        """`folder` holds its certificates, and gets its key-encryption key and log."""
        if not SLUICE.exists():
            raise FileNotFoundError(f"{SLUICE} is not built. Remedy: cargo build --release -p sluice")
        kek = folder / "kek.bin"
        kek.write_bytes(KEK)
        kek.chmod(0o600)
        self.log = folder / "sluice.log"
        legacy = [word for suite in SUITES[3:] for word in ("--allow-suite", suite.name)]
        command = ["ip", "netns", "exec", "gateway", str(SLUICE), "--device-id", "1", "--grpc", P4RUNTIME]
        command += ["--port", "1=wan", "--port", "2=lan", *legacy]
        command += ["--cert", str(folder / "gateway.pem"), "--key", str(folder / "gateway.key")]
        command += ["--client-ca", str(folder / "ca.pem"), "--client-name", CLIENT_NAME, "--kek", str(kek)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log)
        deadline = time.monotonic() + READY_SECONDS
        while "ready" not in self.log.read_text():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sluice did not get ready:\n{self.log.read_text()}")
            time.sleep(0.05)

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=10)


def waited(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _veth(name: str, namespace: str, mac: str, far: str, far_mac: str) -> str:
    near_end = f"link add name {name} address {mac} netns {namespace} type veth"
    return f"{near_end} peer name eth0 address {far_mac} netns {far}"


def _add(addresses: tuple[str, ...]) -> list[str]:
    """`nodad`, on the loopback too: the kernel refuses a route's `src` until it has checked that IPv6 address."""
    return [f"address add {words}{' nodad' if ':' in words else ''}" for words in addresses]


@contextmanager
def _traffic_control(namespace: str, device: str, qdisc: str, filters: list[str]) -> Generator[None]:
    _tc(namespace, f"qdisc add dev {device} {qdisc}")
    try:
        for words in filters:
            _tc(namespace, f"filter add dev {device} {words}")
        yield
    finally:
        _tc(namespace, f"qdisc delete dev {device} {qdisc.split()[0]}")


def _tc(namespace: str, words: str) -> None:
    done = subprocess.run(
        ["tc", "-n", namespace, *words.split()], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"tc {words}: {done.stderr.strip()}")


def _sysctl(key: str, value: str) -> None:
    Path("/proc/sys/net", key).write_text(value)


def _offloads_off(name: str) -> None:
    """Frames are what a wire would carry: no larger than the MTU, with their checksums."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in OFFLOADS:
            value = array.array("B", struct.pack("=II", command, 0))
            request = struct.pack("16sP", name.encode(), value.buffer_info()[0])
            fcntl.ioctl(control, SIOCETHTOOL, request + bytes(40 - len(request)))
