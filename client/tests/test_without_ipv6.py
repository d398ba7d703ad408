"""A computer whose IPv6 is switched off, with an organisation that has both families: the daemon starts and blocks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LIFE = """
import signal, subprocess, sys
here, client, datapath, confined = sys.argv[1:]
main = ("from culvert_ipsec import Kernel; Kernel._probe = lambda _: None; "
        "from culvert_client.daemon import main; main()")
daemon = [sys.executable, "-c", main, "--state-dir", f"{here}/state", "--socket", f"{here}/sock",
          "--datapath", datapath, "--dns-upstream", "127.0.0.9", "--dns-listen", "127.0.0.1:5353"]

def run(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout

for command in ("sysctl -qw net.ipv6.conf.all.disable_ipv6=1", "sysctl -qw net.ipv6.conf.default.disable_ipv6=1",
                "ip link set lo up", "ip link add wan type veth peer name far", "ip link set wan up",
                "ip link set far up", "ip address add 198.51.100.9/24 dev wan",
                "ip route add default via 198.51.100.1"):
    subprocess.run(command.split(), check=True)
if confined == "container":
    subprocess.run("mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys", shell=True, check=True)
process, said = subprocess.Popen(daemon, stderr=subprocess.PIPE, text=True), ""
for line in process.stderr:
    said += line
    if "ready" in line:
        break
else:
    raise AssertionError(said)
assert "10.20.0.0/16" in run("ip", "route", "show", "table", "4500")
process.send_signal(signal.SIGTERM)
said += process.stderr.read()
assert process.wait(30) == 0, said
assert "failed" not in said and "Traceback" not in said, said
assert run("ip", "route", "show", "table", "4500") == ""
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
# In a container /proc/sys is read-only.
@pytest.mark.parametrize(
    ("datapath", "confined"), [("userspace", "host"), ("kernel", "host"), ("userspace", "container")]
)
def test_prefixes_are_blocked_and_the_daemon_ends_cleanly(
    tmp_path: Path, datapath: str, confined: str
) -> None:
    (tmp_path / "state").mkdir()
    wiki = {"fqdn": "wiki.corp.example", "addresses": ["10.20.0.10", "2001:db8:20::10"]}
    profile = {"protected_prefixes": ["10.20.0.0/16", "2001:db8:20::/48"], "resources": [wiki]}
    (tmp_path / "state/profile.json").write_text(json.dumps(profile))
    words = [sys.executable, "-c", LIFE, tmp_path, Path(__file__).parents[1], datapath, confined]
    alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    ended = subprocess.run([*alone, *words], capture_output=True, text=True, check=False, timeout=100)
    if datapath == "kernel" and "has no IPsec" in ended.stderr:
        pytest.skip("this kernel has no IPsec")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("done\n")
