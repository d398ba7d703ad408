"""The stub before broken name servers, beside glibc's and musl's own resolvers before the same ones.

   program ──► getaddrinfo ──► 127.0.0.11, .12, .13                      what the system did without culvertd
           └─► getaddrinfo ──► the stub, 127.0.0.1 ──► 127.0.0.11, .12, .13  what it does with culvertd

A name that resolves on the first way resolves on the second one.
"""

from __future__ import annotations

import os
import shutil
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

ASKER = """
#include <netdb.h>
#include <stdio.h>
int main(int count, char **names) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    int failed = getaddrinfo(names[1], 0, &hints, &found), addresses = 0;
    for (; !failed && found; found = found->ai_next) addresses++;
    printf("%d\\n", addresses);
    return 0;
}
"""

SITE = """
import asyncio, contextlib, socket, struct, subprocess, sys
import dns.flags, dns.message, dns.rcode, dns.rrset
from culvert_client.config import Endpoint
from culvert_client.core.profile import Profile
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
    resolver = Resolver(upstream, Profile, lambda _: Profile(), lambda _: False, lambda _: None)
    class Owners:
        def owners(self): return ()
    stub = Listener(resolver, Owners())
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
    return int((await process.communicate())[0])

async def main():
    for line in sys.stdin:
        async with site(line.split()):
            found = [await ask(it, way) for it in askers for way in (SERVERS, ["127.0.0.1"])]
        print(*found, flush=True)

asyncio.run(main())
"""


def test_names_that_resolve_without_the_stub_resolve_through_it(tmp_path: Path) -> None:
    compilers = {
        name: path for name, it in (("glibc", "cc"), ("musl", "musl-gcc")) if (path := shutil.which(it))
    }
    if len(compilers) < 2:
        pytest.skip("needs a C compiler for each library (packages gcc, musl-tools)")
    source, resolv_conf = tmp_path / "asker.c", tmp_path / "resolv.conf"
    source.write_text(ASKER)
    resolv_conf.touch()
    for name, compiler in compilers.items():
        subprocess.run([compiler, source, "-o", tmp_path / name], check=True)
    askers = [tmp_path / name for name in compilers]
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
        for library, alone, through in zip(
            compilers, rows[behaviours][::2], rows[behaviours][1::2], strict=True
        ):
            assert (through > 0) == resolves, (behaviours, library, rows[behaviours])
            # musl asks every server at once, and so may take the second one's word.
            if behaviours != "nxdomain good good":
                assert not alone or through, (behaviours, library, rows[behaviours])
