"""Input from outside: configuration, the state directory, roles, the controller's messages."""

from __future__ import annotations

import re
import stat
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import culvert_ipsec
import pytest
from culvert_client import config
from culvert_client.config import Config, ConfigError, DatapathChoice, DefaultPaths, Endpoint
from culvert_client.controller.messages import pair_from, profile_from, tunnel_from
from culvert_client.core.client_events import Desired
from culvert_client.core.grant import Sas, TunnelId
from culvert_client.core.roles import Act, may
from culvert_client.platform.linux.datapath import to_ipsec
from culvert_client.state_dir import Identity, StateDir
from culvert_proto import CulvertError, Reason, agent_pb2
from culvert_proto.contract import Suite

CA = "ab" * 32
PATHS = DefaultPaths(Path("/state"), Path("/run/socket"))
load = partial(config.load, PATHS)


def test_the_first_to_enrol_owns_and_only_root_enrols_again() -> None:
    assert may(1000, Act.ENROLL, owner=None)
    assert not may(1000, Act.ENROLL, owner=1000)
    assert may(0, Act.ENROLL, owner=1000)
    for act in (Act.CODE, Act.OPEN, Act.CLOSE, Act.GATEWAY):
        assert may(1000, act, owner=1000)
        assert may(0, act, owner=1000)
        assert not may(1001, act, owner=1000)
        assert not may(1001, act, owner=None)
    assert may(1001, Act.READ, owner=1000)


def test_flags_go_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "culvertd.toml"
    file.write_text('dns_upstream = "192.0.2.53"\ntun_name = "tun7"\nudp_port = 4501\n')
    assert load(["--config", str(file), "--udp-port", "4502", "--dns-listen", "127.0.0.1:5353"]) == Config(
        dns_upstream=Endpoint("192.0.2.53", 53),
        state_dir=PATHS.state_dir,
        socket=PATHS.socket,
        tun_name="tun7",
        udp_port=4502,
        dns_listen=Endpoint("127.0.0.1", 5353),
    )
    assert load(["--config", str(file), "--datapath", "kernel"]).datapath is DatapathChoice.KERNEL
    file.write_text("portal_probe = false\n")
    assert not load(["--config", str(file)]).portal_probe
    file.write_text('public_prefixes = ["8.8.8.0/24", "2606:4700::/32"]')
    assert list(map(str, load(["--config", str(file)]).public_prefixes)) == ["8.8.8.0/24", "2606:4700::/32"]
    assert load(["--portal-probe", "true"]).portal_probe
    assert load(["--dns-upstream", "[2001:db8::53]:54"]).dns_upstream == Endpoint("2001:db8::53", 54)


@pytest.mark.parametrize(
    "content",
    ["dns_upstream = 'nobody'", "dns_upstream = '::1'\nudp_port = 0", "dns_upstream = '::1'\nx = 1", "no toml",
     "dns_upstream = '::1'\ntun_name = 'much-too-long-a-name'", "dns_upstream = '1.1.1.1:99999'",
     "dns_upstream = '::1'\nlegacy_suites = ['aes-gcm-256']", "dns_upstream = '::1'\ndatapath = 'fpga'",
     "portal_probe = 'perhaps'", "public_prefixes = ['203.0.113.1/24']"],
)  # fmt: skip
def test_a_wrong_configuration_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "culvertd.toml"
    file.write_text(content)
    with pytest.raises(ConfigError):
        load(["--config", str(file)])
    with pytest.raises(ConfigError):
        load(["--config", str(tmp_path / "absent.toml")])


IDENTITY = Identity("https://c:1", "c:2", "d1", "alice", 1000, b"cert", b"ca", b"KEYBYTES")


def test_the_identity_is_private_and_replaces_what_was_there(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    assert state.identity() is None
    state.keep_identity(IDENTITY)
    state.keep_tunnels({"a": TunnelId("t1")})
    assert state.identity() == IDENTITY
    assert "KEYBYTES" not in repr(IDENTITY)
    for path in (tmp_path / "state").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    again = Identity("https://other:1", "c:2", "d2", "bob", 0, b"cert2", b"ca2", b"KEY2")
    state.keep_identity(again)
    assert StateDir(tmp_path / "state").identity() == again
    assert state.tunnels() == {}


def test_kept_state_is_read_back_and_a_damaged_profile_is_an_error(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    profile = agent_pb2.Profile(user="alice", protected_prefixes=["10.20.0.0/16"])
    state.keep_profile(profile)
    state.keep_tunnels({"wiki": TunnelId("t1")})
    state.keep_gateway("gw")
    assert (state.profile(), state.tunnels(), state.gateway()) == (profile, {"wiki": "t1"}, "gw")
    for name, read in (
        ("profile.json", state.profile),
        ("tunnels.json", state.tunnels),
        ("gateway", state.gateway),
    ):
        (tmp_path / name).write_bytes(b"\xff[")
        assert read() in (profile, {"wiki": "t1"}, "gw")
        (tmp_path / f"{name}.copy").write_bytes(b"\xff[")
        with pytest.raises(CulvertError, match=re.escape(name)):
            read()


def a_pair(**changes: object) -> agent_pb2.SaPair:
    fields: dict[str, object] = {
        "spi": 300,
        "suite": agent_pb2.SUITE_AES_GCM_256,
        "key": b"k" * 36,
        "esn": True,
    }
    sa = agent_pb2.Sa(**(fields | changes))  # pyright: ignore[reportArgumentType]
    return agent_pb2.SaPair(generation=1, inbound=sa, outbound=sa, drain_ms=1500)


def test_a_pair_of_keys_is_taken_over() -> None:
    pair = pair_from(a_pair())
    assert pair.inbound.suite is Suite.AES_GCM_256
    assert (pair.drain, pair.inbound.spi, pair.outbound.key) == (1.5, 300, b"k" * 36)


@pytest.mark.parametrize(
    "change", [{"spi": 255}, {"suite": 0}, {"suite": 99}, {"key": b"SHORTKEY"}, {"esn": False}]
)
def test_keys_that_no_controller_may_send_are_refused_without_showing_them(change: dict[str, object]) -> None:
    with pytest.raises(CulvertError) as refused:
        pair_from(a_pair(**change))
    assert refused.value.reason is Reason.CONTROLLER_INVALID
    assert refused.value.__cause__ is None
    assert "SHORTKEY" not in str(refused.value)


@pytest.mark.parametrize(
    ("number", "key_bytes", "legacy"),
    [(1, 36, ""), (2, 20, ""), (3, 36, ""), (129, 32, "null-hmac-sha256-128"), (130, 36, "aes-ctr-hmac-md5-96"),
     (131, 36, "aes-cbc-hmac-sha1-96"), (132, 64, "aes-cbc-hmac-sha256-128")],
)  # fmt: skip
def test_a_legacy_suite_is_taken_only_where_the_configuration_allows_it(
    number: int, key_bytes: int, legacy: str
) -> None:
    pair = a_pair(suite=number, key=b"k" * key_bytes)
    allowed = load(["--dns-upstream", "192.0.2.53", "--legacy-suites", legacy]).legacy_suites
    assert pair_from(pair, allowed).outbound.key == b"k" * key_bytes
    if legacy:
        with pytest.raises(CulvertError, match=f"{legacy} is legacy") as refused:
            pair_from(pair)
        assert refused.value.reason is Reason.SUITE_LEGACY


def test_legacy_suites_are_a_list_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "culvertd.toml"
    names = ("aes-cbc-hmac-sha1-96", "null-hmac-sha256-128")
    file.write_text(f"dns_upstream = '192.0.2.53'\nlegacy_suites = {list(names)}\n")
    assert {suite.value for suite in load(["--config", str(file)]).legacy_suites} == set(names)


def test_names_are_compared_in_one_spelling_and_nonsense_is_refused() -> None:
    profile = profile_from(
        agent_pb2.Profile(
            managed_zones=["Corp.Example."],
            resources=[agent_pb2.Resource(name="wiki", fqdn="Wiki.Corp.Example.")],
        )
    )
    assert profile.knows("wiki.corp.example")
    assert profile.manages("x.corp.example")
    assert not profile.manages("notcorp.example")
    with pytest.raises(CulvertError):
        profile_from(agent_pb2.Profile(protected_prefixes=["10.20.0.1/16"]))
    with pytest.raises(CulvertError):
        tunnel_from(agent_pb2.Tunnel(inner_address="nobody"))


def a_tunnel(*selectors: agent_pb2.Selector) -> agent_pb2.Tunnel:
    return agent_pb2.Tunnel(
        inner_address="10.99.0.2",
        inner_address6="2001:db8:99::2",
        remote_prefixes=["10.20.0.10/32", "2001:db8:20::/64"],
        outer_address="198.51.100.2",
        outer_port=4500,
        inner_mtu=1438,
        selectors=selectors,
    )


def test_selectors_reach_the_datapath_and_nonsense_is_refused() -> None:
    tcp = agent_pb2.Selector(prefix="10.20.0.10/32", protocol=6, first_port=443, last_port=444)
    rest = agent_pb2.Selector(prefix="2001:db8:20::/64", last_port=65535)
    tunnel = tunnel_from(a_tunnel(tcp, rest))
    assert tunnel.covers(ip_address("2001:db8:20::10"))
    sas = pair_from(a_pair())
    state = to_ipsec(
        Desired(frozenset(), (Sas(tunnel, (sas.inbound,), sas.outbound),)),
        load(["--dns-upstream", "192.0.2.53"]),
    )
    assert state.inner_addresses == {"10.99.0.2", "2001:db8:99::2"}
    assert state.tunnels[0].inner_address6 == "2001:db8:99::2"
    assert state.tunnels[0].selectors == (
        culvert_ipsec.Selector("10.20.0.10/32", 6, (443, 444)),
        culvert_ipsec.Selector("2001:db8:20::/64"),
    )
    state = to_ipsec(Desired(closed=(tunnel,)), load(["--dns-upstream", "192.0.2.53"]))
    assert [it.inner_addresses for it in state.closed] == [("10.99.0.2", "2001:db8:99::2")]
    assert state.closed[0].remote_prefixes == tuple(map(str, tunnel.remote_prefixes))
    for wrong in (
        agent_pb2.Selector(prefix="10.20.0.0/16", last_port=65535),
        agent_pb2.Selector(prefix="10.20.0.10/32", protocol=256, last_port=65535),
        agent_pb2.Selector(prefix="10.20.0.10/32", first_port=1, last_port=65536),
        agent_pb2.Selector(prefix="10.20.0.10/32", first_port=443, last_port=442),
    ):
        with pytest.raises(CulvertError):
            tunnel_from(a_tunnel(wrong))
