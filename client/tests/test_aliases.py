"""Names that stand for others, in BIND's words: policy is about the name that is reached, and the asked one is recorded."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import dns.rcode
import pytest
from culvert_proto import CulvertError, Reason, agent_pb2, local_pb2
from culvert_proto.screens.opening import last_opening

from .bind import serving_zones
from .controller import CODE
from .running import Running, running
from .test_daemon import Lab, given, why

pytestmark = pytest.mark.slow

CORP = """
wiki A 10.20.0.10
wiki TXT "ipsec-tunneling:yes"
git A 10.20.0.11
secret A 10.20.0.66
new A 203.0.113.7
new TXT "ipsec-tunneling:yes"
www A 203.0.113.80

alias CNAME wiki
second CNAME alias
to-new CNAME new
to-secret CNAME secret
outside CNAME cdn.example.org.
to-public CNAME www
portal CNAME git
_web._tcp SRV 0 0 443 wiki
service HTTPS 0 wiki
hinted HTTPS 1 wiki alpn=h2 ipv4hint=10.20.0.10
loop-a CNAME loop-b
loop-b CNAME loop-a
old DNAME new-home
wiki.new-home A 10.20.0.10
""" + "".join(f"long{number} CNAME long{number + 1}\n" for number in range(30))

PUBLIC = """
cdn A 203.0.113.90
evil CNAME wiki.corp.example.
"""


@contextlib.asynccontextmanager
async def site(tmp_path: Path) -> AsyncGenerator[tuple[Running, Lab]]:
    lab = Lab(tmp_path)
    lab.controller.profile.resources.extend(
        [
            agent_pb2.Resource(name="git", fqdn="git.corp.example", addresses=["10.20.0.11"]),
            agent_pb2.Resource(name="portal", fqdn="portal.corp.example", addresses=["10.20.0.12"]),
            agent_pb2.Resource(name="home", fqdn="wiki.new-home.corp.example", addresses=["10.20.0.10"]),
        ]
    )
    lab.controller.prefixes_of = {
        "git.corp.example": ["10.20.0.11/32"],
        "portal.corp.example": ["10.20.0.12/32"],
        "new.corp.example": ["203.0.113.7/32"],
    }
    no_policy = CulvertError(Reason.NO_POLICY, user="alice", name="secret", owner="bob")
    lab.controller.refusals = {"secret.corp.example": no_policy}
    zones = {"corp.example": CORP, "example.org": PUBLIC}
    with serving_zones(tmp_path, zones) as bind:
        async with lab.serving(), running(lab.directory, bind) as daemon:
            await lab.enroll(daemon)
            await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
            yield daemon, lab


def carried(daemon: Running) -> set[str]:
    return {sas.tunnel.fqdn for sas in daemon.datapath.applied[-1].tunnels}


@pytest.mark.parametrize(
    ("asked", "reached"),
    [("alias", "wiki"), ("second", "wiki"), ("portal", "git"), ("wiki.old", "wiki.new-home")],
)
async def test_an_alias_opens_the_tunnel_of_the_name_that_it_leads_to(
    tmp_path: Path, asked: str, reached: str
) -> None:
    asked, reached = f"{asked}.corp.example", f"{reached}.corp.example"
    async with site(tmp_path) as (daemon, lab):
        answer = await daemon.ask(asked)
        assert answer.rcode() == dns.rcode.NOERROR, why(answer)
        assert len(given(answer)) == 1
        assert reached in carried(daemon)
        assert f"open {reached} for {asked}" in lab.controller.calls
        status = await daemon.status()
        assert (status.clicks[0].fqdn, status.clicks[0].tunnel) == (asked, reached)
        opening = last_opening(status, reached)
        assert opening is not None
        assert opening.fqdn == asked
        # The next one finds the tunnel.
        calls = len(lab.controller.calls)
        assert given(await daemon.ask(asked)) == given(answer)
        assert len(lab.controller.calls) == calls


async def test_an_alias_of_a_name_that_is_not_permitted_is_refused_for_that_name(tmp_path: Path) -> None:
    async with site(tmp_path) as (daemon, lab):
        answer = await daemon.ask("to-secret.corp.example")
        assert (answer.rcode(), given(answer)) == (dns.rcode.SERVFAIL, set())
        assert "secret" in why(answer)
        assert lab.controller.calls == ["open secret.corp.example for to-secret.corp.example"]
        assert carried(daemon) == set()


async def test_the_mark_of_the_reached_name_counts_for_its_alias(tmp_path: Path) -> None:
    """The profile does not know the name yet, and its address is not protected."""
    async with site(tmp_path) as (daemon, lab):
        assert given(await daemon.ask("to-new.corp.example")) == {"203.0.113.7"}
        assert lab.controller.calls == ["open new.corp.example for to-new.corp.example"]


async def test_an_alias_of_a_public_name_needs_no_tunnel(tmp_path: Path) -> None:
    async with site(tmp_path) as (daemon, lab):
        assert given(await daemon.ask("to-public.corp.example")) == {"203.0.113.80"}
        assert (await daemon.ask("outside.corp.example")).rcode() == dns.rcode.NOERROR
        assert (lab.controller.calls, carried(daemon)) == ([], set())


async def test_an_alias_in_a_public_zone_leads_to_no_internal_name(tmp_path: Path) -> None:
    async with site(tmp_path) as (daemon, lab):
        answer = await daemon.ask("evil.example.org")
        assert given(answer) == set()
        assert "10.20.0.10" not in answer.to_text()
        assert (lab.controller.calls, carried(daemon)) == ([], set())


@pytest.mark.parametrize("kind", ["HTTPS", "ANY"])
@pytest.mark.parametrize("asked", ["service", "hinted"])
async def test_a_service_of_another_host_is_resolved_by_that_hosts_name(
    tmp_path: Path, asked: str, kind: str
) -> None:
    async with site(tmp_path) as (daemon, lab):
        answer = await daemon.ask(f"{asked}.corp.example", kind)
        assert (answer.rcode(), given(answer)) == (dns.rcode.NOERROR, set())
        assert "wiki" in answer.answer[0].to_text()
        assert lab.controller.calls == []
        assert given(await daemon.ask("wiki.corp.example")) == {"10.20.0.10"}
        assert carried(daemon) == {"wiki.corp.example"}


async def test_the_host_of_an_srv_record_is_resolved_by_its_name(tmp_path: Path) -> None:
    async with site(tmp_path) as (daemon, _):
        answer = await daemon.ask("_web._tcp.corp.example", "SRV")
        assert "wiki" in answer.answer[0].to_text()
        assert given(answer) == set()
        assert given(await daemon.ask("wiki.corp.example")) == {"10.20.0.10"}


@pytest.mark.parametrize("asked", ["loop-a", "long0", "long9"])
async def test_circles_and_long_chains_end(tmp_path: Path, asked: str) -> None:
    async with site(tmp_path) as (daemon, lab):
        assert given(await daemon.ask(f"{asked}.corp.example")) == set()
        assert lab.controller.calls == []
        assert given(await daemon.ask("wiki.corp.example")) == {"10.20.0.10"}


async def test_mixed_case_in_a_query_and_an_alias_is_kept_and_means_the_same(tmp_path: Path) -> None:
    """As resolvers do against forged answers (draft-vixie-dnsext-dns0x20)."""
    async with site(tmp_path) as (daemon, lab):
        answer = await daemon.ask("aLiAs.CORP.eXample")
        assert given(answer) == {"10.20.0.10"}
        assert answer.question[0].name.to_text() == "aLiAs.CORP.eXample."
        assert lab.controller.calls == ["open wiki.corp.example for alias.corp.example"]
