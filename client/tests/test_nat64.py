"""IPv4 addresses behind a translator: the table of RFC 6052 section 2.4, and what is told to the datapath."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import dns.message
import dns.rrset
import pytest
from culvert_client.core import dns_answer, dns_wire, nat64
from culvert_client.core.client_events import Desired
from culvert_client.core.grant import Sas
from culvert_client.nat64_reach import Nat64Reach

from .granted import pair, tunnel

PREFIXES = {
    "2001:db8::/32": "2001:db8:c000:221::",
    "2001:db8:100::/40": "2001:db8:1c0:2:21::",
    "2001:db8:122::/48": "2001:db8:122:c000:2:2100::",
    "2001:db8:122:300::/56": "2001:db8:122:3c0:0:221::",
    "2001:db8:122:344::/64": "2001:db8:122:344:c0:2:2100::",
    "2001:db8:122:344::/96": "2001:db8:122:344::c000:221",
    "64:ff9b::/96": "64:ff9b::c000:221",
}


@pytest.mark.parametrize(("prefix", "expected"), PREFIXES.items())
def test_addresses_are_embedded_as_the_rfc_has_it(prefix: str, expected: str) -> None:
    network = IPv6Network(prefix)
    assert nat64.embed(IPv4Address("192.0.2.33"), network) == IPv6Address(expected)
    assert nat64.prefix_in(nat64.embed(IPv4Address("192.0.0.170"), network)) == network


async def test_the_translator_is_used_where_there_is_no_ipv4() -> None:
    asked: list[str] = []

    async def ask(query: bytes) -> bytes | None:
        message = dns.message.from_wire(query)
        asked.append(str(message.question[0]))
        answer = dns.message.make_response(message)
        made = ("2001:db8::c000:aa", "64:ff9b::c000:ab")
        answer.answer.append(dns.rrset.from_text("ipv4only.arpa.", 60, "IN", "AAAA", *made))
        return answer.to_wire()

    ipv4 = True
    found = Nat64Reach(ask, lambda _: ipv4)
    assert not await found.look()
    assert found.reach("198.51.100.2") == "198.51.100.2"
    assert found.translator == IPv6Network("2001:db8::/96")
    ipv4 = False
    assert await found.look()
    assert asked == 2 * ["ipv4only.arpa. IN AAAA"]
    assert found.reach("198.51.100.2") == "2001:db8::c633:6402"
    assert [found.reach(it) for it in ("2001:db8::1", "vpn.example")] == ["2001:db8::1", "vpn.example"]
    one, inbound = tunnel(), pair().inbound
    six = replace(one, outer_address=IPv6Address("2001:db8:5::1"))
    desired = Desired(tunnels=tuple(Sas(it, (inbound,), pair().outbound) for it in (one, six)))
    through, beside = (sas.tunnel for sas in found.over(desired).tunnels)
    assert through.outer_address == nat64.embed(
        IPv4Address(str(one.outer_address)), IPv6Network("2001:db8::/96")
    )
    assert through.mtu == one.mtu - 20
    assert beside == six
    narrow = Desired(tunnels=(Sas(replace(one, mtu=1290), (inbound,), pair().outbound),))
    assert found.over(narrow).tunnels[0].tunnel.mtu == 1270
    ipv4 = True
    assert await found.look()
    assert found.over(desired) == desired


async def test_the_translator_is_not_asked_when_ipv4_is_back() -> None:
    ipv4, reached = False, list[str]()

    async def ask(query: bytes) -> bytes | None:
        reached.append(found.reach("198.51.100.2"))
        answer = dns.message.make_response(dns.message.from_wire(query))
        answer.answer.append(dns.rrset.from_text("ipv4only.arpa.", 60, "IN", "AAAA", "64:ff9b::c000:aa"))
        return answer.to_wire()

    found = Nat64Reach(ask, lambda _: ipv4)
    assert await found.look()
    ipv4 = True
    assert await found.look()
    assert reached == 2 * ["198.51.100.2"]


async def test_without_an_answer_addresses_stay_as_they_are() -> None:
    async def silent(_query: bytes) -> None:
        return None

    found = Nat64Reach(silent, lambda _: False)
    assert not await found.look()
    assert found.reach("198.51.100.2") == "198.51.100.2"


@pytest.mark.parametrize(
    ("addresses", "kept"),
    [(["64:ff9b::a14:a"], 0), (["2001:db8::10"], 1), (["64:ff9b::a14:a", "2001:db8::10"], 1)],
)
def test_addresses_from_a_dns64_are_removed_from_an_answer(addresses: list[str], kept: int) -> None:
    answer = dns.message.make_response(dns.message.make_query("wiki.corp.example", "AAAA"))
    answer.answer.append(dns.rrset.from_text("wiki.corp.example.", 60, "IN", "AAAA", *addresses))
    left = dns_answer.without(answer.to_wire(), {ip_address("64:ff9b::a14:a")})
    assert left is not None
    assert len(dns_wire.addresses_in(left) or ()) == kept
    assert dns_answer.without(left[:20], {ip_address("64:ff9b::a14:a")}) is None
