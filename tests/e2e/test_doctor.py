"""`culvert doctor` on a laptop whose every hop is well, and on laptops where one is not."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import dns.flags
import dns.message
import dns.rcode
import pytest
from culvert_lab import parts
from culvert_lab.office import CULVERT, Office
from culvert_lab.topology import Site

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]


async def test_every_hop_is_well_with_and_without_a_tunnel(office: Office) -> None:
    await office.add_resource("git")
    assert await _hops(office) == {
        "daemon", "DNS path", "controller", "clock", "certificate", "code", "gateway", "MTU", "addresses", "TXT"
    }  # fmt: skip
    assert (await office.fetch()).code == 0
    assert await _hops(office) >= {"MTU", "TXT"}
    examined = await office.culvert("doctor")
    # The gateway takes a whole Ethernet frame outside, and a whole packet inside comes back from the wiki.
    assert f"{parts.GATEWAY} 1500" in examined.stdout


async def test_each_hop_to_a_page_is_timed_through_the_tunnel(office: Office) -> None:
    assert (await office.fetch()).code == 0
    ended = await office.culvert("why", "wiki.corp.example", "--json")
    assert ended.code == 0, ended.stderr
    [timed] = json.loads(ended.stdout)["hop_times"]
    hops = {it["kind"].removeprefix("HOP_KIND_"): it for it in timed["hops"]}
    assert hops.keys() == {"NAME_SERVER", "GATEWAY", "SERVER", "PAGE"}
    assert {it["result"] for it in hops.values()} == {"HOP_RESULT_ANSWERED"}
    assert hops["PAGE"]["http_status"] == 200
    shown = (await office.culvert("why", "wiki.corp.example")).stdout
    assert "Nothing is slow: the page began after" in shown
    assert "not measured" not in shown


async def _hops(office: Office) -> set[str]:
    """All of them are well."""
    ended = await office.culvert("doctor", "--json")
    found = json.loads(ended.stdout)
    assert [it for it in found if not it["good"]] == []
    assert ended.code == 0
    return {it["hop"] for it in found}


async def test_a_bridge_of_this_computer_inside_a_protected_network_is_told(office: Office) -> None:
    """No resource is in the bridge's network, as with containers."""
    for argv in (
        "ip link add br-containers type bridge",
        "ip address add 10.20.99.1/24 dev br-containers",
        "ip link set br-containers up",
    ):
        await office.lab.run(Site.LAPTOP, argv.split())
    try:
        assert "10.20.99.0/24" in (await _wrong(office))["addresses"]
    finally:
        await office.lab.run(Site.LAPTOP, ["ip", "link", "delete", "br-containers"])


async def test_another_resolver_that_denies_the_canary_is_not_taken_for_the_stub(office: Office) -> None:
    denying = asyncio.create_task(office.lab.inside(Site.LAPTOP).run(_deny_all, 20.0))
    await asyncio.sleep(0.2)
    around = (
        'echo nameserver 127.0.0.9 >/tmp/around && mount --bind /tmp/around /etc/resolv.conf && exec "$@"'
    )
    wrong = await _wrong(office, "unshare", "--mount", "sh", "-c", around, "sh")
    assert "without culvertd" in wrong["DNS path"]
    denying.cancel()


def _deny_all(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.9", 53))
        server.settimeout(0.5)
        while time.monotonic() < deadline:
            try:
                query, asker = server.recvfrom(4096)
            except TimeoutError:
                continue
            answer = dns.message.make_response(dns.message.from_wire(query))
            answer.flags |= dns.flags.RA
            answer.set_rcode(dns.rcode.NXDOMAIN)
            server.sendto(answer.to_wire(), asker)


async def _wrong(office: Office, *prefix: str) -> dict[str, str]:
    ended = await office.lab.run(Site.LAPTOP, [*prefix, CULVERT, "doctor", "--json"], seconds=30.0)
    return {it["hop"]: it["what"] for it in json.loads(ended.stdout) if not it["good"]}
