"""The stub before broken name servers, beside glibc's and musl's own resolvers before the same ones.

   program ──► getaddrinfo ──► 127.0.0.11, .12, .13                      what the system did without culvertd
           └─► getaddrinfo ──► the stub, 127.0.0.1 ──► 127.0.0.11, .12, .13  what it does with culvertd

A name that resolves on the first way resolves on the second one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes a network and a mount namespace"),
]

# The behaviours of the three servers, and whether names must resolve through the stub.
TABLE = {
    "good good good": True,
    "refused good good": True,
    "servfail good good": True,
    "notimp good good": True,
    "refused servfail good": True,
    "silent good good": True,
    "silent silent good": True,
    "silent refused good": True,
    "closed closed good": True,
    "truncated good good": True,
    "fragments fragments fragments": True,
    "refused refused refused": False,
    "nxdomain good good": False,
}

SITE = """
import asyncio, contextlib, socket, struct, subprocess, sys
import dns.flags, dns.message, dns.rcode, dns.rrset
from culvert_client.config import Endpoint
from culvert_client.daemon.router import Router
from culvert_client.nat64_reach import Nat64Reach
from culvert_client.platform import daemon_platform
from culvert_client.stub.listener import Listener
from culvert_client.stub.resolver import Resolver
from culvert_client.stub.upstream import Upstream

resolv_conf, *askers = sys.argv[1:]
SERVERS = [f"127.0.0.1{number}" for number in (1, 2, 3)]
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["mount", "--bind", resolv_conf, "/etc/resolv.conf"], check=True)

def reply(behaviour, wire, tcp):
    query = dns.message.from_wire(wire)
    message = dns.message.make_response(query)
    if behaviour in ("refused", "servfail", "notimp", "nxdomain"):
        message.set_rcode(dns.rcode.from_text(behaviour))
        return message.to_wire()
    lengthy = behaviour == "fragments"
    addresses = [f"192.0.2.{number}" for number in range(1, 100 if lengthy else 2)]
    if query.question[0].rdtype.name == "A":
        message.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", *addresses))
    if behaviour == "truncated" and not tcp:
        message.answer.clear()
        message.flags |= dns.flags.TC
    # A network that loses fragments: nothing comes over UDP.
    return None if behaviour == "silent" or (lengthy and not tcp) else message.to_wire()

class Udp(asyncio.DatagramProtocol):
    def __init__(self, behaviour): self.behaviour = behaviour
    def connection_made(self, transport): self.transport = transport
    def datagram_received(self, data, sender):
        if (wire := reply(self.behaviour, data, False)) is not None:
            self.transport.sendto(wire, sender)

@contextlib.asynccontextmanager
async def site(behaviours):
    async def on_connection(behaviour, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            query = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
            if (wire := reply(behaviour, query, True)) is not None:
                writer.write(len(wire).to_bytes(2) + wire)
        writer.close()
    loop, opened = asyncio.get_running_loop(), []
    for host, behaviour in zip(SERVERS, behaviours):
        if behaviour == "closed":
            continue
        opened.append((await loop.create_datagram_endpoint(lambda it=behaviour: Udp(it), (host, 53)))[0])
        if behaviour in ("good", "fragments"):
            opened.append(await asyncio.start_server(
                lambda r, w, it=behaviour: on_connection(it, r, w), host, 53))
    upstream = Upstream(*(Endpoint(it, 53) for it in SERVERS))
    platform = daemon_platform()
    resolver = Resolver(upstream, Router(platform.process.slept), Nat64Reach(upstream.exchange))
    class Owners:
        def owners(self): return ()
    stub = Listener(resolver, Owners(), platform.senders)
    await stub.open(Endpoint("127.0.0.1", 53))
    try:
        yield
    finally:
        await stub.close()
        resolver.close()
        for it in opened:
            it.close()
        # The loop closes their sockets in its next turn.
        await asyncio.sleep(0.05)

async def ask(asker, servers):
    with open(resolv_conf, "w") as file:
        file.write("".join(f"nameserver {it}\\n" for it in servers) + "options timeout:2 attempts:1\\n")
    process = await asyncio.create_subprocess_exec(asker, "www.example.org", stdout=subprocess.PIPE)
    return len((await process.communicate())[0].split())

async def main():
    for line in sys.stdin:
        async with site(line.split()):
            found = [await ask(it, way) for it in askers for way in (SERVERS, ["127.0.0.1"])]
        print(*found, flush=True)

asyncio.run(main())
"""


def test_names_that_resolve_without_the_stub_resolve_through_it(tmp_path: Path, askers: list[Path]) -> None:
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.touch()
    ended = subprocess.run(
        ["unshare", "--net", "--mount", sys.executable, "-c", SITE, resolv_conf, *askers],
        input="".join(f"{it}\n" for it in TABLE),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    rows = dict(
        zip(TABLE, ([int(it) for it in row.split()] for row in ended.stdout.splitlines()), strict=True)
    )
    for behaviours, resolves in TABLE.items():
        for asker, alone, through in zip(askers, rows[behaviours][::2], rows[behaviours][1::2], strict=True):
            assert (through > 0) == resolves, (behaviours, asker.name, rows[behaviours])
            # musl asks every server at once, and so may take the second one's word.
            if behaviours != "nxdomain good good":
                assert not alone or through, (behaviours, asker.name, rows[behaviours])


# ── one family without the other ────────────────────────────────────────────────────────────────────────────────────────

V4, V6 = "10.20.0.10", "2001:db8:20::10"
# The tunnel's addresses, the zone's, and those that programs get.
FAMILIES = [
    ([V4], [V4, V6], [V4]),
    ([V6], [V4, V6], [V6]),
    ([V4, V6], [V4, V6], [V4, V6]),
    ([V4, V6], ["10.20.0.99", V6], [V6]),
    ([V4], [V4, "10.20.0.99"], [V4]),
    # The resource has no record of its own: the name is another one's alias.
    ([V4], ["wiki2", V4, V6], [V4]),
]

ONE_NAME = """
import asyncio, json, subprocess, sys
from ipaddress import ip_network
from pathlib import Path
from client.tests.bind import serving_zones
from client.tests.controller import CODE
from client.tests.running import running
from client.tests.test_daemon import Lab, given
from culvert_client.config import Endpoint
from culvert_proto import local_pb2

directory, asked, carried, zone, *askers = sys.argv[1:]
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
(Path(directory) / "resolv.conf").write_text("nameserver 127.0.0.1\\nsearch lan.example\\noptions timeout:2 attempts:1\\n")
subprocess.run(["mount", "--bind", Path(directory) / "resolv.conf", "/etc/resolv.conf"], check=True)

async def main():
    lab = Lab(Path(directory))
    lab.controller.prefixes = [str(ip_network(it)) for it in json.loads(carried)]
    lab.controller.inner_address6 = "2001:db8:99::2"
    lab.controller.profile.protected_prefixes.append("2001:db8:20::/48")
    with serving_zones(Path(directory), {"corp.example": zone, "lan.example": ""}) as bind:
        async with lab.serving(), running(lab.directory, bind, dns_listen=Endpoint("127.0.0.1", 53)) as daemon:
            await lab.enroll(daemon)
            await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
            found = []
            for asker in askers:
                process = await asyncio.create_subprocess_exec(
                    asker, asked, "any", stdout=subprocess.PIPE)
                found.append((await process.communicate())[0].decode().split())
            hints = await daemon.ask(asked, "HTTPS")
            print(json.dumps([*found, sorted(given(hints))]))

asyncio.run(main())
"""


@pytest.mark.parametrize(("carried", "zone", "given"), FAMILIES)
def test_addresses_that_the_tunnel_carries_are_given_beside_others(
    tmp_path: Path, askers: list[Path], carried: list[str], zone: list[str], given: list[str]
) -> None:
    *alias, owner = ["wiki", "wiki2"] if "wiki2" in zone else ["wiki"]
    addresses = [it for it in zone if it != "wiki2"]
    records = [f"{it} CNAME {owner}" for it in alias]
    records += [f"{owner} {'AAAA' if ':' in it else 'A'} {it}" for it in addresses]
    hints = {kind: ",".join(it for it in addresses if (":" in it) == (kind == 6)) for kind in (4, 6)}
    records.append(
        f"{owner} HTTPS 1 . " + " ".join(f"ipv{kind}hint={texts}" for kind, texts in hints.items() if texts)
    )
    *found, hinted = _found(tmp_path, "wiki.corp.example", carried, records, askers)
    for asker, addresses in zip(askers, found, strict=True):
        assert sorted(addresses) == sorted(given), asker.name
    assert hinted == sorted(given)


@pytest.mark.parametrize("asked", ["wiki", "WiKi"])
def test_a_name_without_a_dot_is_the_resources(tmp_path: Path, askers: list[Path], asked: str) -> None:
    """Behind the search list of resolv.conf, which has no such name."""
    hints = f"wiki HTTPS 1 . ipv4hint={V4}"
    found = _found(tmp_path, asked, [V4], [f"wiki A {V4}", hints], askers)
    assert found == [[V4]] * (len(askers) + 1)


def _found(
    directory: Path, asked: str, carried: list[str], records: list[str], askers: list[Path]
) -> list[list[str]]:
    """The addresses that each program finds, then those of an HTTPS answer."""
    words = [directory, asked, json.dumps(carried), "".join(f"{it}\n" for it in records), *askers]
    ended = subprocess.run(
        ["unshare", "--net", "--mount", sys.executable, "-c", ONE_NAME, *words],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
