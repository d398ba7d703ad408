"""A daemon beside programs that remove routes and rules which they did not make, or whose own rules come early.

isp ── wan ─ this computer: systemd-networkd sets up wan
The provider has every protected address, too: what leaks is answered.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NETWORKD = Path("/lib/systemd/systemd-networkd")

COMPUTER = """
set -eu
mount -t tmpfs none /run
mkdir -p /run/netns /run/dbus /run/systemd/network
for name in links leases lldp; do mkdir -p /run/systemd/netif/$name; done
chown -R systemd-network /run/systemd/netif
# /sys shows this network namespace, read-only: then networkd does not wait for udev.
mount -t sysfs -o ro none /sys
ip link set lo up
ip netns add isp
ip -n isp link set lo up
ip link add wan type veth peer name there netns isp
ip -n isp address add dev there 198.51.100.1/24
ip -n isp address add dev lo 203.0.113.5/32
ip -n isp address add dev lo 10.20.0.10/32
ip -n isp -6 address add dev there 2001:db8:1::1/64 nodad
ip -n isp -6 address add dev lo 2001:db8:20::10/128 nodad
ip -n isp link set there up
printf '[Match]\\nName=wan\\n[Network]\\nAddress=198.51.100.10/24\\nGateway=198.51.100.1\\nAddress=2001:db8:1::10/64\\n\
Gateway=2001:db8:1::1\\nIPv6AcceptRA=no\\n' > /run/systemd/network/wan.network
dbus-daemon --system --fork --nopidfile
exec "$@"
"""
LIFE = """
import signal, subprocess, sys, time
here, networkd = sys.argv[1:]
ROUTES = [["ip", version, "route", "show", "table", "4500"] for version in ("-4", "-6")]

def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

def reaches(address):
    return subprocess.run(["ping", "-n", "-c1", "-W1", address], capture_output=True).returncode == 0

def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, (run("ip", "rule"), [run(*it) for it in ROUTES], run("ip", "route"))
        time.sleep(0.05)

def is_blocked():
    return not reaches("10.20.0.10") and not reaches("2001:db8:20::10")

def has_rules():
    return all("lookup 4500" in run("ip", version, "rule") for version in ("-4", "-6"))

networking = subprocess.Popen([networkd])
until(lambda: reaches("203.0.113.5"))
until(lambda: reaches("10.20.0.10") and reaches("2001:db8:20::10"))
daemon = subprocess.Popen(
    [sys.executable, "-c", "from culvert_client.daemon import main; main()", "--state-dir", f"{here}/state",
     "--socket", f"{here}/sock", "--datapath", "userspace", "--dns-upstream", "127.0.0.9",
     "--dns-listen", "127.0.0.1:5353"], stderr=subprocess.PIPE, text=True)
for line in daemon.stderr:
    print(line, end="", file=sys.stderr)
    if "ready" in line:
        break
assert is_blocked()
routes = [run(*it) for it in ROUTES]

# systemd-networkd sets up its device again, and tidies up.
run("networkctl", "reconfigure", "wan")
time.sleep(1)
until(lambda: reaches("203.0.113.5"))
assert has_rules() and [run(*it) for it in ROUTES] == routes, "removed by systemd-networkd"
assert is_blocked()

# Another VPN's rule for everything.
for version, gateway in (("-4", "198.51.100.1"), ("-6", "2001:db8:1::1")):
    run("ip", version, "route", "add", "default", "via", gateway, "table", "7120")
    run("ip", version, "rule", "add", "priority", "100", "lookup", "7120")
assert reaches("203.0.113.5") and is_blocked()

# A program that removes all that it does not know.
for version in ("-4", "-6"):
    run("ip", version, "rule", "flush")
    run("ip", version, "rule", "add", "priority", "32766", "lookup", "main")
until(has_rules)
assert reaches("203.0.113.5") and is_blocked()
for it in ROUTES:
    run(*it[:3], "flush", *it[4:])
until(lambda: [run(*it) for it in ROUTES] == routes)
assert is_blocked()

daemon.send_signal(signal.SIGTERM)
assert daemon.wait(30) == 0
assert not any("4500" in run("ip", version, "rule") for version in ("-4", "-6"))
assert reaches("10.20.0.10")
networking.terminate()
networking.wait(10)
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces: needs root")
@pytest.mark.skipif(not NETWORKD.exists() or not shutil.which("dbus-daemon"), reason="needs systemd-networkd")
def test_prefixes_stay_blocked_when_other_programs_flush(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    profile = {"protected_prefixes": ["10.20.0.0/16", "2001:db8:20::/48"]}
    (tmp_path / "state/profile.json").write_text(json.dumps(profile))
    alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    life = [sys.executable, "-c", LIFE, str(tmp_path), str(NETWORKD)]
    ended = subprocess.run(
        [*alone, "sh", "-c", COMPUTER, "sh", *life], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("done\n")
