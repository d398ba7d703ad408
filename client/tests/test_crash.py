"""culvertd is killed, with a network and an /etc of its own: names fail and prefixes stay blocked till it is cleaned up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces: needs root"),
    pytest.mark.timeout(300),
]

# Runs with a network and an /etc of its own; every claim is one of the C library's resolver or of the kernel's routing.
LIFE = """
import errno, os, shutil, subprocess, sys
from pathlib import Path
from pyroute2 import IPRoute, NetlinkError

here = Path(sys.argv[1])
resolv, mark = Path("/etc/resolv.conf"), "# Written by culvertd"
BEFORE = resolv.read_text()
daemon = [sys.executable, "-c", "from culvert_client.daemon import main; main()",
          "--state-dir", str(here / "state"), "--socket", str(here / "run/culvertd.sock")]

def look_up():
    # A process of its own: the C library reads resolv.conf once.
    asked = subprocess.run(["getent", "ahostsv4", "www.example.org"], capture_output=True, text=True)
    return "203.0.113.80" in asked.stdout

def blocked():
    with IPRoute() as kernel:
        try:
            kernel.route("get", dst="10.20.0.10")
        except NetlinkError as error:
            return error.code == errno.EINVAL
    return False

def start():
    process = subprocess.Popen(daemon, stderr=subprocess.PIPE, text=True)
    assert any("ready" in line for line in process.stderr)
    assert resolv.read_text().startswith(mark)
    return process

def clean_up(result):
    subprocess.run([*daemon, "--cleanup"], check=True, env=os.environ | {"SERVICE_RESULT": result})

with IPRoute() as kernel:
    lo = kernel.link_lookup(ifname="lo")[0]
    # getent asks for no family of which there is no address (AI_ADDRCONFIG).
    kernel.addr("add", index=lo, address="192.0.2.7", prefixlen=32)
    kernel.route("add", dst="0.0.0.0/0", oif=lo)
assert look_up()
assert not blocked()

process = start()
assert look_up()
refused = subprocess.run([*daemon, "--cleanup"], capture_output=True, text=True)
assert refused.returncode == 1 and "another culvertd" in refused.stderr, refused
process.kill(), process.wait()
assert not look_up() and blocked()
clean_up("signal")
assert resolv.read_text() == BEFORE and look_up() and blocked()
clean_up("success")
assert look_up() and not blocked()

# The next start finds what a crash left, and a stop leaves nothing.
process = start()
process.kill(), process.wait()
process = start()
assert look_up()
process.terminate()
assert process.wait() == 0
assert resolv.read_text() == BEFORE and look_up() and not blocked()
assert sorted(it.name for it in (here / "state").iterdir()) == ["organisations"]

# The unit cleans up after a stop that could not put names back.
process = start()
for options in (["--bind", str(resolv), str(resolv)], ["-o", "remount,ro,bind", str(resolv)]):
    subprocess.run(["mount", *options], check=True)
process.terminate()
assert process.wait() == 1
subprocess.run(["umount", str(resolv)], check=True)
assert not look_up() and not blocked()
clean_up("exit-code")
assert resolv.read_text() == BEFORE and look_up()

# An obstacle to serving names: the daemon runs on, blocks, says what it is, and serves names once that has gone.
import signal, socket, time
def says(*words):
    asked = [sys.executable, "-c", "from culvert_client.cli import app; app()", "--socket", str(here / "run/culvertd.sock")]
    ended = subprocess.run([*asked, *words], capture_output=True, text=True)
    return ended.stdout + ended.stderr
def until(condition):
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends, (says("status"), log.read_text())
        time.sleep(0.1)
log = here / "log"
def serves_on(word, ends, *settings):
    with log.open("w") as written:
        process = subprocess.Popen([*daemon, *settings], stderr=written)
    until(lambda: word in says("status"))
    assert word in says("doctor"), says("doctor")
    assert look_up() and resolv.read_text() == BEFORE
    # Nothing to a protected address leaves by another device.
    assert "dev culvert0" in subprocess.run(["ip", "route", "get", "10.20.0.10"], capture_output=True, text=True).stdout
    ends()
    until(lambda: resolv.read_text() != BEFORE and word not in says("status"))
    assert look_up()
    process.terminate()
    assert process.wait() == 0
    said = log.read_text()
    # Once, however often it is tried.
    assert said.count(word) == 1 and "Traceback" not in said, said
    assert not blocked() and resolv.read_text() == BEFORE
taken = [socket.socket(socket.AF_INET, it) for it in (socket.SOCK_DGRAM, socket.SOCK_STREAM)]
for it in taken:
    it.bind(("127.0.0.1", 53))
serves_on("cannot answer DNS queries at port 53 of 127.0.0.1: python", lambda: [it.close() for it in taken])
# Both are needed: where one is taken, the other one is not kept.
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
    taken.bind(("127.0.0.1", 53))
    serves_on("cannot answer DNS queries at port 53 of 127.0.0.1: python", taken.close)
state = str(here / "state")
subprocess.run(["mount", "--bind", state, state], check=True)
subprocess.run(["mount", "-o", "remount,bind,ro", state], check=True)
serves_on("dns-before.json cannot be written: Read-only", lambda: subprocess.run(["umount", state], check=True))
if subprocess.run(["chattr", "+i", str(resolv)]).returncode == 0:
    mutable = lambda: subprocess.run(["chattr", "-i", str(resolv)], check=True)
    try:
        serves_on("cannot set this computer's name service: /etc/resolv.conf: Operation not permitted", mutable)
    finally:
        mutable()
(here / "full").mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(here / "full")], check=True)
shutil.copytree(here / "state", here / "full/state")
try:
    (here / "full/fill").write_bytes(bytes(1 << 20))
except OSError as error:
    assert error.errno == errno.ENOSPC
serves_on("dns-before.json cannot be written: No space left", (here / "full/fill").unlink,
          "--state-dir", str(here / "full/state"))
subprocess.run(["umount", str(here / "full")], check=True)

# A note of what was before that is damaged costs nothing: its copy is read.
process = start()
process.kill(), process.wait()
(here / "state/dns-before.json").write_bytes(b"")
clean_up("signal")
assert resolv.read_text() == BEFORE and look_up() and blocked()
clean_up("success")

# With both damaged, the next start goes on, the note is kept, and no name server is invented.
process = start()
process.kill(), process.wait()
for name in ("dns-before.json", "dns-before.json.copy"):
    (here / "state" / name).write_bytes(b"{")
process = start()
assert (here / "state/dns-before.json.damaged").read_bytes() == b"{"
unknown = "name servers are not known: the file"
until(lambda: unknown in says("status"))
assert unknown in says("doctor")
# As the person is told to.
resolv.write_text(BEFORE)
until(lambda: unknown not in says("status") and look_up())
process.terminate()
assert process.wait() == 0
assert resolv.read_text() == BEFORE and look_up()
print("done")
"""

NAME_SERVER = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from tests import name_server
async def serve():
    loop = asyncio.get_running_loop()
    answer = name_server.from_records({("www.example.org", "A"): ["203.0.113.80"]})
    await loop.create_datagram_endpoint(lambda: name_server._Server(answer, []), local_addr=("127.0.0.9", 53))
    print("serving", flush=True)
    await asyncio.Event().wait()
asyncio.run(serve())
"""


def test_a_killed_daemon_blocks_what_is_protected_and_is_cleaned_up(tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    etc.mkdir()
    for name in ("passwd", "group", "localtime", "ld.so.cache"):
        if (file := Path("/etc") / name).exists():
            shutil.copy(file, etc)
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n")
    (etc / "resolv.conf").write_text("nameserver 127.0.0.9\noptions timeout:1 attempts:2\n")
    (tmp_path / "state").mkdir()
    (tmp_path / "state/profile.json").write_text('{"protected_prefixes": ["10.20.0.0/16"]}')
    (tmp_path / "serve.py").write_text(NAME_SERVER)
    (tmp_path / "life.py").write_text(LIFE)
    client = str(Path(__file__).parents[1])
    script = """
        mount --bind "$1/etc" /etc
        "$2" "$1/serve.py" "$3" > "$1/serving" &
        ip link set lo up
        for _ in $(seq 400); do grep -q serving "$1/serving" && break; sleep 0.05; done
        "$2" "$1/life.py" "$1"
    """
    # All processes end with the namespace, even if the test fails.
    alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
    command = [*alone, "sh", "-euc", script, "sh", str(tmp_path), sys.executable, client]
    environment = os.environ | {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={tmp_path}/no-bus"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("done\n")
