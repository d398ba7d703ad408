"""A gateway joins with a link: its keys stay its own, its KEK is agreed, and a link that is no good is refused in words."""

from __future__ import annotations

import asyncio
import base64
import datetime
import ipaddress
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from culvert_db import Gateway, GatewayEnrolment, Resource
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError
from culvert_service.gateways.config import kek_of
from culvert_service.gateways.key_wrap import KeyWrap
from culvert_service.gateways.schemas import GatewayIn
from culvert_service.joining import agreement
from culvert_service.joining.free_pools import find_free
from culvert_service.joining.repository import overlap
from culvert_service.operation import doctor
from culvert_service.pki.master_key import MasterKey
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, update

from . import log_watch
from .conftest import World, authority, make_csr
from .test_metrics import scraped

VECTORS = Path(__file__).parents[2] / "tests" / "vectors" / "gateway_kek.json"
CASES = json.loads(VECTORS.read_text())["cases"]
NAME = "gw-berlin"
PRIVATE = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_the_kek_is_the_one_that_openssl_computes(case: dict[str, str]) -> None:
    own = X25519PrivateKey.from_private_bytes(bytes.fromhex(case["controller_private"]))
    assert own.public_key().public_bytes_raw().hex() == case["controller_public"]
    token = agreement.read_token(case["token"])
    assert token is not None
    kek = agreement.agree(own, bytes.fromhex(case["gateway_public"]), token)
    assert kek.hex() == case["kek"]
    assert KeyWrap(kek).fingerprint.hex() == case["fingerprint"]


@pytest.mark.parametrize("point", [bytes(32), b"\1" + bytes(31)])
def test_a_key_that_gives_every_peer_the_same_secret_is_refused(point: bytes) -> None:
    with pytest.raises(CulvertError, match="no X25519 public key"):
        agreement.agree(X25519PrivateKey.generate(), point, bytes(20))


@pytest.mark.parametrize(
    "text", ["", "a", "lgc6c5jmpstmvzlnluppfwcbfmula5u", "lgc6c5jmpstmvzlnluppfwcbfmula5u!", "ä" * 32]
)
def test_an_altered_token_is_no_token(text: str) -> None:
    assert agreement.read_token(text) is None


def test_a_token_has_160_bits_and_survives_its_text() -> None:
    token = agreement.new_token()
    text = agreement.write_token(token)
    assert len(text) == 32
    assert agreement.read_token(text) == token


class Computer:
    """A computer that joins: its two keys and what it has found."""

    def __init__(self, port: int | None = None, number: int = 1) -> None:
        self.key, self.csr = make_csr()
        self.half = X25519PrivateKey.generate()
        self.facts: dict[str, Any] = {
            "address": f"198.51.100.{number}",
            "p4runtime": f"127.0.0.1:{port or free_port()}",
            "wan": {"port": 1, "mac": "02:00:00:00:01:01", "next_hop_mac": "02:00:00:00:01:02"},
            "lan": {
                "port": 2,
                "mac": "02:00:00:00:02:01",
                "address": "10.20.0.1",
                "prefix": 16,
                "neighbours": {"10.20.0.10": "02:00:00:00:02:10"},
            },
        }

    def body(self, token: str) -> dict[str, Any]:
        public = base64.b64encode(self.half.public_key().public_bytes_raw()).decode()
        return {"token": token, "facts": self.facts, "csr_pem": self.csr, "agreement_key": public}

    def kek(self, token: str, answer: dict[str, Any]) -> bytes:
        theirs = base64.b64decode(answer["agreement_key"])
        shared = self.half.exchange(X25519PublicKey.from_public_bytes(theirs))
        info = b"culvert gateway key-encryption key 1\0" + self.half.public_key().public_bytes_raw() + theirs
        salt = base64.b32decode(token.upper())
        return HKDF(hashes.SHA256(), 32, salt=salt, info=info).derive(shared)

    def reports(self, name: str, **found: Any) -> dict[str, Any]:
        default: dict[str, Any] = {
            "gateway": name,
            "at": int(time.time()),
            "address": None,
            "wan": {},
            "lan": {},
        }
        body = default | found
        lines: list[str] = [name, str(body["at"]), body["address"] or "-"]
        lines += [
            f"{side} {at} {mac or '-'}" for side in ("wan", "lan") for at, mac in sorted(body[side].items())
        ]
        statement = b"culvert gateway reports 1\0" + "\n".join(lines).encode()
        signature = base64.b64encode(self.key.sign(statement, ec.ECDSA(hashes.SHA256()))).decode()
        return {**body, "csr_pem": self.csr, "signature": signature}

    def leaves(self, name: str) -> dict[str, str]:
        statement = b"culvert gateway leaves 1\0" + name.encode()
        signature = base64.b64encode(self.key.sign(statement, ec.ECDSA(hashes.SHA256()))).decode()
        return {"gateway": name, "csr_pem": self.csr, "signature": signature}


async def enrol(world: World, name: str = NAME, **fields: object) -> str:
    """The token of a new link."""
    body = {"gateway": name} | (fields or {"pool": "10.99.1.0/24"})
    made = await world.rest("POST", "/gateway-enrolments", body)
    address, _, fragment = made["link"].partition("#")
    assert address == f"{world.settings.rest_url}/join"
    token, _, fingerprint = fragment.partition(".")
    log_watch.met(token)
    assert base64.urlsafe_b64decode(f"{fingerprint}=") == authority(world, "infrastructure").fingerprint
    return token


async def ask(world: World, path: str, body: object) -> httpx.Response:
    return await world.anyone.post(f"/api/v1/{path}", json=body)


async def join(world: World, token: str, computer: Computer) -> dict[str, Any]:
    answer = await ask(world, "gateway-joins", computer.body(token))
    assert answer.status_code == 201, answer.text
    return answer.json()


async def refusal(world: World, path: str, body: object) -> str:
    answer = await ask(world, path, body)
    assert not answer.is_success
    said = answer.json()
    assert said["detail"]
    assert said["remedy"]
    return str(said["reason"])


async def stored(world: World, name: str = NAME) -> Gateway:
    async with world.database() as session:
        found = await session.scalar(select(Gateway).where(Gateway.name == name))
    assert found is not None
    return found


async def test_a_gateway_joins_with_a_link(world: World) -> None:
    token, computer = await enrol(world), Computer()
    checked = (await ask(world, "gateway-joins/check", {"token": token, "facts": computer.facts})).json()
    assert (checked["gateway"], checked["pool"], checked["exists"]) == (NAME, "10.99.1.0/24", False)
    answer = await join(world, token, computer)
    certificate = x509.load_pem_x509_certificate(answer["certificate_pem"].encode())
    assert certificate.public_key() == computer.key.public_key()
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName(NAME)]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority(world, "gateway").pem))
    assert answer["ca_pem"].encode() == authority(world, "infrastructure").trusted_pem
    assert answer["agent_address"] == world.settings.agent_address
    kek = computer.kek(token, answer)
    assert answer["kek_fingerprint"] == KeyWrap(kek).fingerprint.hex()
    gateway = await stored(world)
    assert kek_of(gateway, MasterKey.load(world.settings.state_dir)) == kek
    [shown] = await world.rest("GET", "/gateway-enrolments")
    assert shown["state"] == "joined"
    assert (await world.rest("GET", f"/gateways/{NAME}"))["keys"]["state"] == "settled"
    lines = await world.rest("GET", "/audit")
    actions = [line["action"] for line in lines]
    assert "gateway.enrol" in actions
    assert "gateway.join" in actions


async def test_the_database_has_the_tokens_hash_alone(world: World) -> None:
    token = await enrol(world)
    raw = agreement.read_token(token)
    assert raw is not None
    async with world.database() as session:
        [row] = await session.scalars(select(GatewayEnrolment))
    values = [getattr(row, column.key) for column in GatewayEnrolment.__table__.columns]
    assert token not in map(str, values)
    assert raw not in values


async def test_a_link_is_good_once(world: World) -> None:
    token = await enrol(world)
    await join(world, token, Computer())
    assert await refusal(world, "gateway-joins", Computer().body(token)) == "JOIN_LINK_USED"
    assert await refusal(world, "gateway-joins/check", {"token": token}) == "JOIN_LINK_USED"


async def test_of_two_computers_with_one_link_one_joins(world: World) -> None:
    token = await enrol(world)
    answers = await asyncio.gather(
        *(ask(world, "gateway-joins", Computer(number=n).body(token)) for n in range(1, 5))
    )
    assert sorted(answer.status_code for answer in answers) == [201, 403, 403, 403]


async def test_a_lost_answer_is_given_again_to_the_same_key_alone(world: World) -> None:
    token, computer = await enrol(world), Computer()
    first = await join(world, token, computer)
    again = await join(world, token, computer)
    assert again["agreement_key"] != first["agreement_key"]
    keks = await stored(world)
    master_key = MasterKey.load(world.settings.state_dir)
    assert keks.next_kek_ciphertext is not None
    assert master_key.open(keks.next_kek_ciphertext, f"gateway {NAME}") == computer.kek(token, again)


async def test_an_expired_altered_or_withdrawn_link_is_refused_by_its_reason(world: World) -> None:
    token = await enrol(world)
    other = "a" * 32 if token[0] != "a" else "b" * 32
    assert await refusal(world, "gateway-joins", Computer().body(other)) == "JOIN_LINK_UNKNOWN"
    assert await refusal(world, "gateway-joins", Computer().body("not a token")) == "JOIN_LINK_UNKNOWN"
    async with world.database.begin() as session:
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
        await session.execute(update(GatewayEnrolment).values(expires_at=past))
    assert await refusal(world, "gateway-joins", Computer().body(token)) == "JOIN_LINK_EXPIRED"
    [shown] = await world.rest("GET", "/gateway-enrolments")
    assert shown["state"] == "expired"
    newer = await enrol(world)
    assert await refusal(world, "gateway-joins", Computer().body(token)) == "JOIN_LINK_UNKNOWN"
    [shown] = await world.rest("GET", "/gateway-enrolments")
    await world.rest("DELETE", f"/gateway-enrolments/{shown['id']}")
    assert await refusal(world, "gateway-joins", Computer().body(newer)) == "JOIN_LINK_UNKNOWN"


async def test_links_that_still_work_are_listed_behind_any_number_of_ended_ones(world: World) -> None:
    await enrol(world, "gw-old", pool="10.99.2.0/24")
    await join(world, await enrol(world), Computer())
    async with world.database.begin() as session:
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
        await session.execute(update(GatewayEnrolment).values(expires_at=past))
    await enrol(world, "gw-new", pool="10.99.3.0/24")
    everything = await world.rest("GET", "/gateway-enrolments")
    assert [it["state"] for it in everything] == ["expired", "joined", "waiting"]
    [shown] = await world.rest("GET", "/gateway-enrolments?waiting=true&limit=1")
    assert shown["gateway"] == "gw-new"


async def test_a_refused_join_leaves_the_link_good_and_no_gateway(world: World) -> None:
    token, computer = await enrol(world, pool="10.20.128.0/24"), Computer()
    assert (
        await refusal(world, "gateway-joins/check", {"token": token, "facts": computer.facts})
        == "POOL_OVERLAPS"
    )
    assert await refusal(world, "gateway-joins", computer.body(token)) == "POOL_OVERLAPS"
    assert await refusal(world, "gateway-joins", computer.body(token) | {"csr_pem": "no"}) == "CSR_INVALID"
    zeros = base64.b64encode(bytes(32)).decode()
    computer.facts["lan"] |= {"address": "10.30.0.1", "neighbours": {}}
    assert (
        await refusal(world, "gateway-joins", computer.body(token) | {"agreement_key": zeros})
        == "REQUEST_INVALID"
    )
    assert await world.rest("GET", "/gateways") == []
    await join(world, token, computer)


async def test_a_pool_of_another_gateway_gets_no_link(world: World) -> None:
    await world.add_gateway("gw-paris", free_port(), 2)
    for pool in ("10.99.2.0/25", "10.20.0.0/24", "198.51.100.0/24"):
        body = {"gateway": NAME, "pool": pool}
        answer = await world.admin.post("/api/v1/gateway-enrolments", json=body)
        said = answer.json()
        assert (answer.status_code, said["reason"]) == (409, "POOL_OVERLAPS")
        assert [it["pointer"] for it in said["errors"]] == ["/pool"]
    assert said["detail"] == (
        "The address pool 198.51.100.0/24 of the gateway gw-berlin overlaps "
        "the address 198.51.100.2 of the gateway gw-paris."
    )
    answer = await world.admin.post("/api/v1/gateway-enrolments", json={"gateway": NAME})
    assert answer.json()["reason"] == "REQUEST_INVALID"
    answer = await world.admin.post(
        "/api/v1/gateway-enrolments", json={"gateway": "gw-paris", "pool": "10.98.0.0/24"}
    )
    assert answer.json()["reason"] == "ALREADY_EXISTS"


async def test_the_suggested_pools_are_free_and_lie_side_by_side(world: World) -> None:
    first = await world.rest("GET", "/gateway-enrolments/free-pools")
    assert first == await world.rest("GET", "/gateway-enrolments/free-pools")
    pool, pool6 = ipaddress.IPv4Network(first["pool"]), ipaddress.IPv6Network(first["pool6"])
    assert (pool.prefixlen, pool.subnet_of(ipaddress.IPv4Network("10.0.0.0/8"))) == (24, True)
    assert (pool6.prefixlen, pool6.subnet_of(ipaddress.IPv6Network("fd00::/8"))) == (64, True)
    await enrol(world, pool=first["pool"], pool6=first["pool6"])
    second = await world.rest("GET", "/gateway-enrolments/free-pools")
    assert ipaddress.ip_network(second["pool"])[0] == pool[-1] + 1
    assert ipaddress.ip_network(second["pool6"])[0] == pool6[-1] + 1
    async with world.database.begin() as session:
        session.add(
            Resource(
                name="git",
                fqdn="git.corp.example",
                targets=[{"prefix": second["pool"]}],
                owner="bob",
                idle_seconds=300,
                **dict.fromkeys(("soft_packets", "soft_bytes", "soft_seconds"), 0),
            )
        )
    third = await world.rest("GET", "/gateway-enrolments/free-pools")
    assert not overlap(third["pool"], second["pool"])
    assert third["pool6"] == second["pool6"]


@given(st.binary(min_size=32, max_size=32), st.lists(st.ip_addresses(v=4).map(str), max_size=8))
def test_no_suggested_pool_overlaps_a_known_network(seed: bytes, taken: list[str]) -> None:
    pool, pool6 = find_free(seed, [*taken, "10.0.0.0/9"])
    assert pool is not None
    assert pool6 is not None
    assert not any(overlap(pool, it) for it in [*taken, "10.0.0.0/9"])
    assert any(ipaddress.IPv4Network(pool).subnet_of(ipaddress.IPv4Network(it)) for it in PRIVATE)


def test_no_pool_is_suggested_where_every_private_prefix_is_taken() -> None:
    assert find_free(b"", PRIVATE)[0] is None


async def test_a_gateway_that_exists_joins_again_with_new_keys_and_ports(world: World) -> None:
    first = Computer()
    await join(world, await enrol(world), first)
    before = await stored(world)
    token = await enrol(world, gateway=NAME)
    second = Computer()
    second.facts["wan"]["mac"] = "02:00:00:00:09:09"
    second.facts["lan"]["neighbours"] = {"10.20.0.11": "02:00:00:00:02:11"}
    answer = await join(world, token, second)
    shown = await world.rest("GET", f"/gateways/{NAME}")
    assert shown["wan"]["mac"] == "02:00:00:00:09:09"
    assert set(shown["lan"]["neighbours"]) == {"10.20.0.10", "10.20.0.11"}
    assert shown["keys"]["state"] == "waiting"
    after = await stored(world)
    master_key = MasterKey.load(world.settings.state_dir)
    assert kek_of(after, master_key) == kek_of(before, master_key)
    assert after.next_kek_ciphertext is not None
    assert master_key.open(after.next_kek_ciphertext, f"gateway {NAME}") == second.kek(token, answer)
    assert await refusal(world, "gateway-renewals", {"csr_pem": first.csr}) == "GATEWAY_NOT_JOINED"


async def test_a_certificate_is_renewed_for_the_same_key_alone(world: World) -> None:
    computer = Computer()
    first = await join(world, await enrol(world), computer)
    answer = await ask(world, "gateway-renewals", {"csr_pem": computer.csr})
    assert answer.status_code == 201
    renewed = x509.load_pem_x509_certificate(answer.json()["certificate_pem"].encode())
    assert renewed.public_key() == computer.key.public_key()
    assert answer.json()["certificate_pem"] != first["certificate_pem"]
    keys = (await world.rest("GET", f"/gateways/{NAME}"))["keys"]
    assert datetime.datetime.fromisoformat(keys["certificate_expires_at"]) == renewed.not_valid_after_utc
    assert await refusal(world, "gateway-renewals", {"csr_pem": make_csr()[1]}) == "GATEWAY_NOT_JOINED"
    await world.rest("POST", f"/gateways/{NAME}/bundle")
    assert await refusal(world, "gateway-renewals", {"csr_pem": computer.csr}) == "GATEWAY_NOT_JOINED"


async def test_an_end_of_a_certificate_is_told_in_time(world: World) -> None:
    """By a metric, for the alert, and by doctor: the renewal of a gateway that connects itself may fail for months."""
    await join(world, await enrol(world), Computer())
    name = f"certificate of {NAME}"
    [before] = [it async for it in doctor.examine(world.settings) if it.what == name]
    assert not before.wrong
    end = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + datetime.timedelta(days=20, hours=1)
    async with world.database() as session:
        await session.execute(update(Gateway).values(certificate_expires_at=end))
        await session.commit()
    [after] = [it async for it in doctor.examine(world.settings) if it.what == name]
    assert after.wrong == "it ends in 20 days"
    assert f"culvert-gateway renew {NAME} --now" in after.remedy
    metric = "culvert_gateway_certificate_expires_timestamp_seconds"
    assert (await scraped(world))[metric, (NAME,)] == end.timestamp()


async def test_a_gateway_learns_by_its_key_whether_it_is_online(world: World) -> None:
    computer = Computer()
    await join(world, await enrol(world), computer)
    seen = (await ask(world, "gateway-states", {"csr_pem": computer.csr})).json()
    assert (seen["gateway"], seen["state"]) == (NAME, "offline")
    assert seen["reason"]
    assert seen["silent"] == []
    assert await refusal(world, "gateway-states", {"csr_pem": make_csr()[1]}) == "GATEWAY_NOT_JOINED"


async def test_a_gateway_leaves_by_its_own_signature(world: World) -> None:
    computer, stranger = Computer(), Computer()
    await join(world, await enrol(world), computer)
    forged = computer.leaves(NAME) | {"signature": stranger.leaves(NAME)["signature"]}
    assert await refusal(world, "gateway-leaves", forged) == "REQUEST_INVALID"
    assert await refusal(world, "gateway-leaves", stranger.leaves(NAME)) == "GATEWAY_NOT_JOINED"
    await world.add_wiki([NAME])
    left = await ask(world, "gateway-leaves", computer.leaves(NAME))
    assert "it serves wiki" in left.json()["kept"]
    assert await refusal(world, "gateway-renewals", {"csr_pem": computer.csr}) == "GATEWAY_NOT_JOINED"
    second = Computer()
    await join(world, await enrol(world, gateway=NAME), second)
    await world.rest("DELETE", "/resources/wiki")
    assert (await ask(world, "gateway-leaves", second.leaves(NAME))).json() == {"kept": ""}
    assert await world.rest("GET", "/gateways") == []


HOP, WIKI = "198.51.100.254", "10.20.0.10"
HOP_MAC, WIKI_MAC = "02:00:00:00:01:02", "02:00:00:00:02:10"


async def shown(world: World) -> dict[str, Any]:
    return await world.rest("GET", f"/gateways/{NAME}")


async def test_a_gateway_reports_the_mac_addresses_of_its_neighbours(world: World) -> None:
    computer, stranger = Computer(), Computer()
    computer.facts["next_hop"] = HOP
    await join(world, await enrol(world), computer)
    made = await shown(world)
    assert (made["wan"]["next_hop"], made["wan"]["next_hop_mac"]) == (HOP, None)
    assert made["lan"]["neighbours"] == {WIKI: None}
    both = [
        {"side": "wan", "address": HOP, "mac": HOP_MAC, "silent_since": None},
        {"side": "lan", "address": WIKI, "mac": WIKI_MAC, "silent_since": None},
    ]
    assert made["neighbours"] == both
    known = (await ask(world, "gateway-reports", computer.reports(NAME))).json()
    assert (known["wan"], known["lan"]) == ([HOP], [WIKI])
    assert (known["address"], known["lan_address"]) == ("198.51.100.1", "10.20.0.1")

    other = "02:00:00:00:07:07"
    found = {"wan": {HOP: other}, "lan": {WIKI: None, "10.20.0.99": other}}
    assert (await ask(world, "gateway-reports", computer.reports(NAME, **found))).status_code == 200
    after = await shown(world)
    silent = after["neighbours"][1].pop("silent_since")
    assert silent is not None
    assert after["neighbours"] == [
        both[0] | {"mac": other},
        {"side": "lan", "address": WIKI, "mac": WIKI_MAC},
    ]
    [line] = [it for it in await world.rest("GET", "/audit") if it["action"] == "gateway.neighbours"]
    assert (line["actor"], line["details"]) == (NAME, {HOP: f"{HOP_MAC} to {other}", "count": 1})
    # The description by an administrator is as before: no other's edit is out of date.
    assert {**after, "neighbours": []} == {**made, "neighbours": []}

    # Forged, altered, old, another's.
    good = computer.reports(NAME, **found)
    for bad in (
        good | {"signature": stranger.reports(NAME, **found)["signature"]},
        good | {"wan": {HOP: "02:00:00:00:08:08"}},
        good | {"at": good["at"] + 1},
        computer.reports(NAME, at=int(time.time()) - 301),
    ):
        assert await refusal(world, "gateway-reports", bad) == "REQUEST_INVALID"
    assert await refusal(world, "gateway-reports", stranger.reports(NAME)) == "GATEWAY_NOT_JOINED"
    assert await refusal(world, "gateway-reports", computer.reports("gw-paris")) == "GATEWAY_NOT_JOINED"
    assert (await shown(world))["neighbours"][0]["mac"] == other


async def test_a_resources_server_becomes_a_neighbour_to_find(world: World) -> None:
    computer = Computer()
    computer.facts["next_hop"] = HOP
    await join(world, await enrol(world), computer)
    before = await shown(world)
    body = {"name": "git", "fqdn": "git.corp.example", "gateways": [NAME], "owner": "bob@corp.example"}

    async def preview(prefix: str) -> int:
        asked = body | {"targets": [{"prefix": prefix}]}
        answer = await world.admin.post("/api/v1/resources/preview", json=asked)
        assert answer.is_success or NAME in answer.json()["detail"], answer.text
        return answer.status_code

    assert await preview("10.20.0.77/32") == 200
    assert await shown(world) == before
    await world.rest("POST", "/resources", body | {"targets": [{"prefix": "10.20.0.77/32"}]})
    known = (await ask(world, "gateway-reports", computer.reports(NAME, lan={"10.20.0.77": WIKI_MAC}))).json()
    assert known["lan"] == [WIKI, "10.20.0.77"]
    after = await shown(world)
    assert after["lan"]["neighbours"] == {WIKI: None, "10.20.0.77": None}
    macs = {it["address"]: it["mac"] for it in after["neighbours"]}
    assert macs == {HOP: HOP_MAC, WIKI: WIKI_MAC, "10.20.0.77": WIKI_MAC}
    # The gateway itself, a host elsewhere, and a prefix that names no server.
    for prefix in ("10.20.0.1/32", "192.0.2.1/32", "10.20.8.0/24"):
        assert await preview(prefix) == 422


async def test_an_administrator_fixes_a_mac_address_and_lets_it_be_found_again(world: World) -> None:
    computer = Computer()
    computer.facts["next_hop"] = HOP
    await join(world, await enrol(world), computer)
    made = await shown(world)
    fields = set(GatewayIn.model_fields)
    body = {key: value for key, value in made.items() if key in fields}
    fixed = {**body, "wan": {**body["wan"], "next_hop": None, "next_hop_mac": "02:00:00:00:09:09"}}
    fixed["lan"] = {
        **body["lan"],
        "neighbours": {WIKI: None, "10.20.0.11": "02:00:00:00:02:11", "10.20.0.12": None},
    }
    await world.rest("PUT", f"/gateways/{NAME}", fixed)
    after = await shown(world)
    assert after["wan"]["next_hop_mac"] == "02:00:00:00:09:09"
    assert [(it["address"], it["mac"]) for it in after["neighbours"]] == [
        (WIKI, WIKI_MAC),
        ("10.20.0.12", None),
    ]
    known = (await ask(world, "gateway-reports", computer.reports(NAME, wan={HOP: HOP_MAC}))).json()
    assert (known["wan"], known["lan"]) == ([], [WIKI, "10.20.0.12"])
    assert (await shown(world))["wan"]["next_hop_mac"] == "02:00:00:00:09:09"
    await world.rest("PUT", f"/gateways/{NAME}", body)
    assert (await shown(world))["wan"] == made["wan"]
    both = {**body, "wan": {**body["wan"], "next_hop_mac": HOP_MAC}}
    answer = await world.admin.put(f"/api/v1/gateways/{NAME}", json=both, headers={"If-Match": "*"})
    assert answer.json()["reason"] == "REQUEST_INVALID"
