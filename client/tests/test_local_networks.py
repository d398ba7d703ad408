"""This computer's own networks inside of what is protected: what stays reachable, what is blocked, and what is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest
from culvert_client.core.claims import LocalNetwork
from culvert_client.core.client_events import Desired
from culvert_client.core.local_networks import MOST_NAMED, MOST_TOLD, share
from culvert_proto import CulvertError, Reason

DESIRED = Desired(frozenset({ip_network("10.20.0.0/16"), ip_network("fd20::/32")}))


def network(prefix: str, *, own: bool = True) -> LocalNetwork:
    return LocalNetwork(ip_network(prefix), "br0", 7, None, own)


def said(*warnings: CulvertError) -> list[tuple[Reason, str, str]]:
    return [(it.reason, it.fields["network"], it.fields["prefix"]) for it in warnings]


OPEN, BLOCKED = Reason.LOCAL_NETWORK_OPEN, Reason.LOCAL_NETWORK_BLOCKED


@pytest.mark.parametrize(
    ("prefix", "own", "warning"),
    [
        ("10.20.9.0/24", True, (OPEN, "10.20.9.0/24", "10.20.0.0/16")),
        ("fd20:0:9::/64", True, (OPEN, "fd20:0:9::/64", "fd20::/32")),
        # A packet from outside could make packets for the intranet go to this network.
        ("10.20.9.0/24", False, (BLOCKED, "10.20.9.0/24", "10.20.0.0/16")),
        # An exception would leave no address of the prefix protected.
        ("10.20.0.0/16", True, (BLOCKED, "10.20.0.0/16", "10.20.0.0/16")),
        ("10.0.0.0/8", True, (BLOCKED, "10.0.0.0/8", "10.20.0.0/16")),
        ("10.21.0.0/16", True, None),
        ("192.0.2.0/24", False, None),
    ],
)
def test_an_own_network_smaller_than_the_protected_prefix_stays_reachable(
    prefix: str, own: bool, warning: tuple[Reason, str, str] | None
) -> None:
    local = network(prefix, own=own)
    shared = share(DESIRED, [], [local])
    assert said(*shared.warnings) == ([warning] if warning else [])
    spared = warning is not None and warning[0] is OPEN
    assert shared.desired == (replace(DESIRED, on_link=(local,)) if spared else DESIRED)


def test_a_resource_inside_a_local_network_stays_protected() -> None:
    local = network("10.20.9.0/24")
    wiki, site, elsewhere = map(ip_network, ("10.20.9.66/32", "10.20.0.0/16", "10.30.0.1/32"))
    shared = share(DESIRED, [wiki, site, elsewhere], [local])
    assert shared.desired.blocked == DESIRED.blocked | {wiki}
    assert shared.desired.on_link == (local,)
    assert said(*shared.warnings) == [
        (OPEN, "10.20.9.0/24", "10.20.0.0/16"),
        (BLOCKED, "10.20.9.0/24", "10.20.9.66/32"),
    ]
    whole = share(DESIRED, [local.prefix], [local])
    assert whole.desired == DESIRED
    assert said(*whole.warnings) == [(BLOCKED, "10.20.9.0/24", "10.20.9.0/24")]


def test_no_number_of_networks_or_resources_fills_the_status() -> None:
    many = [network(f"10.20.{number}.0/24") for number in range(MOST_TOLD + 4)]
    shared = share(DESIRED, [], many)
    assert (len(shared.desired.on_link), len(shared.warnings)) == (MOST_TOLD + 4, MOST_TOLD)
    resources = [ip_network(f"10.20.9.{number}") for number in range(100)]
    shared = share(DESIRED, resources, [network("10.20.9.0/24")])
    assert shared.desired.blocked == DESIRED.blocked | set(resources)
    assert len(shared.warnings[1].fields["prefix"].split(", ")) == MOST_NAMED + 1


TAPS = """
import subprocess
from culvert_client.platform.linux.networks import local_networks

def ip(command):
    subprocess.run(["ip", *command.split()], check=True)

ip("link add br0 type bridge")
ip("address add 10.20.9.1/24 dev br0")
ip("link set br0 up")
for port, flags in (("vm0", "vnet_hdr"), ("vpn0", "")):
    ip(f"tuntap add {port} mode tap {flags}")
    ip(f"link set {port} master br0 up")
    [network] = local_networks(set())
    print(port, network.own)
    ip(f"link delete {port}")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a namespace: needs root")
def test_a_vpns_tap_makes_a_bridge_foreign_a_virtual_machines_does_not() -> None:
    ended = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", TAPS], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines() == ["vm0 True", "vpn0 False"]


# ── real bridges, real packets ──────────────────────────────────────────────────────────────────────────────────────────

# isp ── wan ┐
#            ├─ this computer ─ br0 ─ box, a container behind address translation
# lan ── nic ┘
# The provider has every protected address, too: what leaks is answered.
COMPUTER = """
set -eu
mount -t tmpfs none /run/netns
ip link set lo up
for name in isp lan box; do ip netns add $name; ip -n $name link set lo up; done
ip link add wan type veth peer name there netns isp
ip link add wire type veth peer name wire netns lan
ip -n isp address add dev there 198.51.100.1/24
ip -n isp address add dev there 10.20.30.1/24
ip -n isp address add dev lo 203.0.113.5/32
for address in 10.20.0.10 10.20.9.5 10.20.9.66; do ip -n isp address add dev lo $address/32; done
ip -n isp link set there up
ip -n lan link set wire up
ip -n lan address add dev wire 10.20.40.1/24
ip address add dev wan 198.51.100.10/24
ip link set wan up
ip link set wire up
ip route add default via 198.51.100.1
ip link add name br0 type bridge
ip address add dev br0 10.20.9.1/24
ip link set br0 up
ip link add port type veth peer name eth0 netns box
ip link set port master br0 up
ip -n box address add dev eth0 10.20.9.5/24
ip -n box address add dev eth0 10.20.9.66/24
ip -n box link set eth0 up
ip -n box route add default via 10.20.9.1
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv4/conf/all/rp_filter
for it in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 1 > $it; done
nft 'add table ip nat'
nft 'add chain ip nat out { type nat hook postrouting priority 100 ; }'
nft 'add rule ip nat out ip saddr 10.20.9.0/24 oifname != br0 masquerade'
exec "$@"
"""
LIFE = """
import ipaddress, signal, socket, subprocess, sys, time
here, client, datapath = sys.argv[1:]
sys.path.insert(0, client)
# No tunnel is opened here: what counts of the kernel's IPsec are its policies, whatever ciphers it has.
main = "from culvert_ipsec import Kernel; Kernel._probe = lambda _: None; from culvert_client.daemon import main; main()"
daemon = [sys.executable, "-c", main, "--state-dir", f"{here}/state", "--socket", f"{here}/sock",
          "--datapath", datapath, "--dns-upstream", "127.0.0.9", "--dns-listen", "127.0.0.1:5353"]
protected = ipaddress.ip_network("10.20.0.0/16")
taps = []
for device in ("wan", "wire"):
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.bind((device, 3))
    tap.setblocking(False)
    taps.append(tap)

def leaked():
    found = []
    for tap in taps:
        while True:
            try:
                frame, address = tap.recvfrom(65536)
            except BlockingIOError:
                break
            # Packets from a network's neighbours do not count, only those that this computer sends.
            if address[2] == socket.PACKET_OUTGOING and frame[12:14] == b"\\x08\\x00":
                to = ipaddress.ip_address(frame[30:34])
                if to in protected:
                    found.append(str(to))
    return found

def run(*command, check=True):
    return subprocess.run(command, capture_output=True, text=True, check=check).stdout

def reaches(address, at=None):
    inside = ["ip", "netns", "exec", at] if at else []
    return subprocess.run([*inside, "ping", "-n", "-c1", "-W1", address], capture_output=True).returncode == 0

def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, (status(), run("ip", "route", "show", "table", "4500"))
        time.sleep(0.05)

def status():
    return run(sys.executable, "-c", "from culvert_client.cli import app; app()", "--socket", f"{here}/sock", "status")

def start():
    process = subprocess.Popen(daemon, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        print(line, end="", file=sys.stderr)
        if "ready" in line:
            return process
    raise AssertionError("not ready")

# Ports of a new bridge may not forward yet.
until(lambda: reaches("10.20.9.5") and reaches("203.0.113.5", "box") and reaches("203.0.113.5"))
assert reaches("10.20.0.10"), "the provider answers what leaks"
leaked()
process = start()

# The container is reached, and reaches this computer and the Internet.
until(lambda: reaches("10.20.9.5"))
assert reaches("10.20.9.1", "box") and reaches("203.0.113.5", "box")
assert "10.20.9.0/24 on br0 is a network that this computer made itself" in status()
# Protected addresses are reached by neither, and a resource's address inside of the bridge's network is still a resource's.
assert not reaches("10.20.0.10") and not reaches("10.20.0.10", "box") and not reaches("10.20.9.66")
assert "overlaps with protected networks: 10.20.9.66/32" in status()

# A bridge that goes away takes nothing with it into the provider's network, and one that comes back is reached again.
run("ip", "link", "set", "br0", "down")
assert not reaches("10.20.9.5")
run("ip", "link", "set", "br0", "up")
until(lambda: reaches("10.20.9.5"))

# Networks that come while the daemon runs: an own one, and those of others.
run("ip", "link", "add", "name", "br1", "type", "bridge")
run("ip", "address", "add", "dev", "br1", "10.20.8.1/24")
run("ip", "link", "set", "br1", "up")
until(lambda: "dev br1" in run("ip", "route", "get", "10.20.8.2"))
# As a hostile network would give it out, and as a second card, tethering or another VPN has it.
run("ip", "address", "add", "dev", "wan", "10.20.30.7/24", "valid_lft", "3600", "preferred_lft", "3600")
run("ip", "link", "add", "name", "nic", "link", "wire", "type", "macvlan")
run("ip", "address", "add", "dev", "nic", "10.20.40.7/24")
run("ip", "link", "set", "nic", "up")
run("ip", "tuntap", "add", "vpn0", "mode", "tun")
run("ip", "link", "set", "vpn0", "up")
run("ip", "route", "add", "10.20.50.0/24", "dev", "vpn0")
for network, address in (("10.20.30.0/24 on wan", "10.20.30.1"), ("10.20.40.0/24 on nic", "10.20.40.1"),
                         ("10.20.50.0/24 on vpn0", "10.20.50.1")):
    until(lambda: f"{network} overlaps with protected networks: 10.20.0.0/16" in status())
    assert not reaches(address)
    assert "dev culvert0" in run("ip", "route", "get", address), network
assert "br1" in status() and "dev br1" in run("ip", "route", "get", "10.20.8.2")
# A bridge is no longer this computer's own with a card as its port, or with an address from outside.
run("ip", "link", "set", "nic", "master", "br0")
until(lambda: not reaches("10.20.9.5"))
run("ip", "link", "set", "nic", "nomaster")
until(lambda: reaches("10.20.9.5"))
run("ip", "address", "add", "dev", "br1", "10.20.7.9/24", "valid_lft", "3600", "preferred_lft", "3600")
until(lambda: "dev culvert0" in run("ip", "route", "get", "10.20.8.2"))
run("ip", "link", "del", "br1")
until(lambda: "br1" not in status())

# A killed daemon leaves both as they were: what is protected blocked, what is on link reachable.
process.kill()
process.wait()
assert reaches("10.20.9.5") and not reaches("10.20.0.10") and not reaches("10.20.9.66")
process = start()
until(lambda: reaches("10.20.9.5"))
run("ip", "link", "del", "br0")
assert not reaches("10.20.9.5")
assert leaked() == [], "in clear"
process.send_signal(signal.SIGTERM)
assert process.wait(30) == 0
assert run("ip", "route", "show", "table", "4500", check=False) == ""
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces: needs root")
@pytest.mark.parametrize("datapath", ["userspace", "kernel"])
def test_containers_go_on_and_nothing_protected_leaves_in_clear(tmp_path: Path, datapath: str) -> None:
    (tmp_path / "state").mkdir()
    wiki = {"fqdn": "wiki.corp.example", "addresses": ["10.20.9.66"]}
    profile = {"protected_prefixes": ["10.20.0.0/16"], "resources": [wiki]}
    (tmp_path / "state/profile.json").write_text(json.dumps(profile))
    alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    life = [sys.executable, "-c", LIFE, str(tmp_path), str(Path(__file__).parents[1]), datapath]
    ended = subprocess.run(
        [*alone, "sh", "-c", COMPUTER, "sh", *life], capture_output=True, text=True, check=False, timeout=300
    )
    if datapath == "kernel" and "has no IPsec" in ended.stderr:
        pytest.skip("this kernel has no IPsec")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("done\n")


# ── the networks of dockerd and libvirt beside an open tunnel, over IPv4 and IPv6 ───────────────────────────────────────

# isp ── wan ┐                    ┌ docker0 ─ c1
#            ├─ this computer ────┼ br-0a1b2c3d4e5f ─ c2
# card ─ nic ┘                    └ virbr0 ─ vm
BRIDGES = """
set -eu
mount -t tmpfs none /run/netns
ip link set lo up
joins() { ip link add $1 type veth peer name $2 netns $3; ip link set $1 up; ip -n $3 link set $2 up; }
bridge() {
  ip netns add $2; ip -n $2 link set lo up; ip link add $1 type bridge; ip link set $1 up
  joins veth$2 eth0 $2; ip link set veth$2 master $1
}
ip netns add isp; ip -n isp link set lo up; joins wan there isp
bridge docker0 c1; bridge br-0a1b2c3d4e5f c2; bridge virbr0 vm
joins wire card isp; ip link add link wire name nic type macvlan
for it in "198.51.100.10/24 dev wan" "2001:db8:1::10/64 dev wan" "172.17.0.1/16 dev docker0" "fd20:0:17::1/64 dev docker0" \
  "fe80::1/64 dev docker0" "172.18.0.1/16 dev br-0a1b2c3d4e5f" "192.168.122.1/24 dev virbr0"; do
  case $it in *::*) it="$it nodad";; esac; ip address add $it
done
ip route add default via 198.51.100.1
ip -6 route add default via 2001:db8:1::1
for it in "198.51.100.1/24 dev there" "2001:db8:1::1/64 dev there nodad" "172.21.0.1/16 dev card" \
  "fd20:0:21::1/64 dev card nodad" "203.0.113.5/32 dev lo" "2001:db8:5::5/128 dev lo" "172.16.0.10/32 dev lo" \
  "fd20::10/128 dev lo" "172.20.0.1/32 dev lo"
do ip -n isp address add $it; done
for it in "172.17.0.2/16 dev eth0" "172.17.0.66/16 dev eth0" "fd20:0:17::66/64 dev eth0 nodad preferred_lft 0" \
  "fd20:0:17::2/64 dev eth0 nodad"; do ip -n c1 address add $it; done
ip -n c2 address add 172.18.0.2/16 dev eth0
ip -n vm address add 192.168.122.50/24 dev eth0
for it in "c1 172.17.0.1" "c1 fd20:0:17::1" "c2 172.18.0.1" "vm 192.168.122.1"; do
  set -- $it "$@"; ip -n $1 route add default via $2; shift 2
done
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
for it in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 1 > $it; done
for family in ip ip6; do
  nft add table $family nat
  nft "add chain $family nat out { type nat hook postrouting priority 100 ; }"
  nft add rule $family nat out oifname wan masquerade
  nft add table $family filter
  nft "add chain $family filter forward { type filter hook forward priority 0 ; policy drop ; }"
  nft add rule $family filter forward ct state established,related accept
  nft "add rule $family filter forward iifname { docker0, br-0a1b2c3d4e5f, virbr0 } oifname wan accept"
done
exec "$@"
"""
BESIDE = """
import asyncio, signal, socket, subprocess, sys
from ipaddress import ip_address, ip_network
from pathlib import Path
import grpc.aio
from client.tests.controller import CODE
from client.tests.test_daemon import Lab
from culvert_proto import local_pb2, local_pb2_grpc

here, *carried = sys.argv[1:]
PROTECTED = ["172.16.0.0/12", "192.168.0.0/16", "fd20::/32"]
OWN = [(it, None) for it in ("172.17.0.2", "172.18.0.2", "fd20:0:17::2", "192.168.122.50")] + [
    ("172.17.0.1", "c1"), ("fd20:0:17::1", "c1"), ("203.0.113.5", "c1"), ("2001:db8:5::5", "c1"), ("203.0.113.5", "vm")]
INTRANET = ["172.16.0.10", "172.20.0.1", "fd20::10"]
FOREIGN = ["172.21.0.1", "fd20:0:21::1"]
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.bind(("wan", 3))
tap.setblocking(False)

def leaked():
    while True:
        try:
            frame, address = tap.recvfrom(65536)
        except BlockingIOError:
            return
        part = {b"\\x08\\x00": frame[30:34], b"\\x86\\xdd": frame[38:54]}.get(frame[12:14])
        if part and address[2] == socket.PACKET_OUTGOING and any(ip_address(part) in ip_network(it) for it in PROTECTED):
            yield ip_address(part)

def reaches(address, at=None):
    inside = ["ip", "netns", "exec", at] if at else []
    return subprocess.run([*inside, "ping", "-n", "-c1", "-W1", address], capture_output=True).returncode == 0

async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.05)

async def check():
    for address, at in OWN:
        await until(lambda: reaches(address, at))
    hidden = [(address, at) for address in INTRANET + FOREIGN for at in (None, "c1")]
    # Each waits for a second.
    answers = await asyncio.gather(*(asyncio.to_thread(reaches, *it) for it in hidden))
    assert not any(answers), [it for it, answer in zip(hidden, answers) if answer]

async def main():
    lab = Lab(Path(here))
    profile = lab.controller.profile
    profile.protected_prefixes[:] = PROTECTED
    profile.gateways[0].address = lab.controller.outer_address = "198.51.100.1"
    profile.resources[0].addresses[:] = lab.controller.prefixes = carried
    lab.controller.inner_address6 = "fd99::2"
    assert all(reaches(*it) for it in OWN)
    list(leaked())
    daemon = subprocess.Popen([
        sys.executable, "-c", "from culvert_client.daemon import main; main()", "--state-dir", f"{here}/state",
        "--socket", f"{here}/sock", "--datapath", "userspace", "--dns-upstream", "127.0.0.9",
        "--dns-listen", "127.0.0.1:5353"])
    await until(Path(here, "sock").exists)
    async with lab.serving(), grpc.aio.insecure_channel(f"unix:{here}/sock") as channel:
        local = local_pb2_grpc.LocalServiceStub(channel)
        with lab.invitation() as link:
            await local.Enroll(local_pb2.EnrollRequest(link=link, device_name="laptop"))
        await local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        await check()
        await local.OpenTunnel(local_pb2.OpenTunnelRequest(name="wiki"))
        await check()
        # A second card that comes meanwhile.
        for words in ("address add 172.21.0.5/16 dev nic", "address add fd20:0:21::5/64 dev nic nodad", "link set nic up"):
            subprocess.run(["ip", *words.split()], check=True)
        # A container's address that a resource has is the resource's.
        named = [it.partition("/")[0] for it in carried if it.endswith(("66/32", "66/128"))]
        async with asyncio.timeout(30):
            while True:
                answer = await local.GetStatus(local_pb2.GetStatusRequest())
                told = " ".join(it.message for it in answer.status.warnings)
                if all(f"{it} on nic overlaps" in told for it in ("172.21.0.0/16", "fd20:0:21::/64")):
                    break
                await asyncio.sleep(0.05)
        await check()
        assert not any(map(reaches, named))
        for network in ("172.17.0.0/16 on docker0", "fd20:0:17::/64 on docker0", "192.168.122.0/24 on virbr0"):
            assert f"{network} is a network that this computer made itself" in told
        await local.CloseTunnel(local_pb2.CloseTunnelRequest(name="wiki"))
        await check()
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    assert list(leaked()) == [], "in clear"

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces: needs root")
@pytest.mark.parametrize(
    "carried",
    [
        ("172.16.0.10/32", "172.17.0.66/32", "fd20::10/128", "fd20:0:17::66/128"),
        ("172.16.0.0/12", "fd20::/32"),
    ],
    ids=["hosts", "networks"],
)
def test_bridges_stay_reachable_beside_an_open_tunnel(tmp_path: Path, carried: tuple[str, ...]) -> None:
    alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    life = [sys.executable, "-c", BESIDE, str(tmp_path), *carried]
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [*alone, "sh", "-c", BRIDGES, "sh", *life],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
