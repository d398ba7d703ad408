"""A person's refusals: the same typed reason in DNS, on the command line and in the status."""

from __future__ import annotations

import asyncio
import socket
import time

import dns.message
import dns.query
import dns.rcode
import pyotp
import pytest
from culvert_lab import laptop
from culvert_lab import topology as net
from culvert_lab.office import Office
from culvert_lab.topology import Site
from culvert_proto import Reason
from pyotp.totp import TOTP

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

REFUSED = 3
# An answer that waits for a tunnel, without other tunnels that open meanwhile, is held for this time.
HOLD_SECONDS = 2.0


async def test_a_wrong_code_is_refused_and_the_next_right_one_works_once(office: Office) -> None:
    wrong = await office.culvert("code", stdin="000000\n")
    assert wrong.code == REFUSED
    assert "The code is wrong." in wrong.stderr

    otp = pyotp.parse_uri(office.totp_uri)
    assert isinstance(otp, TOTP)
    # Enrolment may have used this moment's code; the one after it is accepted too (RFC 6238 section 5.2).
    code = otp.at(time.time() + otp.interval)
    first = await office.culvert("code", stdin=f"{code}\n")
    assert first.code == 0, first.stderr
    again = await office.culvert("code", stdin=f"{code}\n")
    assert again.code == REFUSED
    assert "used already" in again.stderr


async def test_a_name_without_a_policy_names_its_owner(office: Office) -> None:
    vault = await office.add_resource("vault", users=[])
    found = await office.culvert("open", vault)
    assert found.code == REFUSED
    assert f"No policy lets alice reach {vault}." in found.stderr
    assert "bob@corp.example" in found.stderr

    answer = await office.lab.inside(Site.LAPTOP).run(_ask, vault)
    assert answer.rcode() == dns.rcode.SERVFAIL
    assert not answer.answer
    assert "No policy lets alice" in answer.to_text(), "the extended error says why (RFC 8914)"

    assert (await office.fetch()).code == 0, "a name that is allowed still opens"


async def test_a_name_that_does_not_exist_is_not_held(office: Office) -> None:
    began = time.monotonic()
    answer = await office.lab.inside(Site.LAPTOP).run(_ask, f"nothing.{net.ZONE}")
    assert answer.rcode() == dns.rcode.NXDOMAIN
    assert time.monotonic() - began < HOLD_SECONDS


async def test_the_next_packet_does_not_reopen_a_closed_tunnel(office: Office) -> None:
    await office.culvert("close", "--all")

    def connect() -> bool:
        try:
            socket.create_connection((net.WIKI_ADDRESS, 80), timeout=0.5).close()
        except OSError:
            return False
        return True

    assert not await office.lab.inside(Site.LAPTOP).run(connect)
    assert not (await laptop.status(office.lab)).tunnels


async def test_a_revoked_device_loses_its_tunnels_within_two_seconds(office: Office) -> None:
    """Last in this module: the laptop is out afterwards."""
    assert (await office.culvert("open", net.WIKI_NAME)).code == 0
    [device] = [each for each in await office.joined.admin.get("/devices") if each["name"] == laptop.NAME]
    began = time.monotonic()
    await office.joined.admin.post(f"/devices/{device['id']}/revoke")
    while (await laptop.status(office.lab)).tunnels:
        assert time.monotonic() - began < 2.0
        await asyncio.sleep(0.05)
    assert await office.joined.admin.tunnel_entries("gw-berlin") == 0
    refused = await office.culvert("open", net.WIKI_NAME)
    assert refused.code == REFUSED
    assert "has been revoked" in refused.stderr
    assert (await laptop.status(office.lab)).last_error.reason == Reason.DEVICE_REVOKED


def _ask(name: str) -> dns.message.Message:
    query = dns.message.make_query(name, "A", use_edns=0)
    return dns.query.udp(query, "127.0.0.1", timeout=5.0)
