"""An administrator's requests about site tunnels: valid ones, and refused ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from culvert_lab.free_port import free_port
from culvert_service.operation import administration
from culvert_service.operation.rest_client import CallRefusedError

from . import two_sites
from .conftest import World
from .test_changes import put
from .two_sites import BERLIN, NUMBERS, PARIS, Sites, described

pytestmark = pytest.mark.slow


@pytest.fixture
async def gateways(world: World, tmp_path: Path) -> None:
    """Two registered gateways whose switches do not run."""
    ports = {name: free_port() for name in NUMBERS}
    await two_sites.register(world, tmp_path, Sites(tmp_path, ports, {}, {}))


def ends(berlin: dict[str, Any] | str, paris: dict[str, Any] | str) -> dict[str, Any]:
    """One target for each end; a text is a prefix."""
    targets = (it if isinstance(it, dict) else {"prefix": it} for it in (berlin, paris))
    return {
        "ends": [
            {"gateway": name, "targets": [it]} for name, it in zip((BERLIN, PARIS), targets, strict=True)
        ]
    }


async def post(world: World, body: object) -> httpx.Response:
    return await world.admin.post("/api/v1/site-tunnels", json=body)


@pytest.mark.usefixtures("gateways")
async def test_a_site_tunnel_is_made_changed_and_deleted(world: World) -> None:
    made = await post(world, described(suite="chacha20-poly1305"))
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    shown = made.json()
    assert (shown["state"], shown["generation"], shown["keyed_at"]) == ("down", 0, None)
    assert shown["reason"] == "The gateway gw-berlin cannot be reached."
    assert [(end["address"], end["online"]) for end in shown["ends"]] == [
        ("198.51.100.1", False),
        ("198.51.100.2", False),
    ]
    assert await world.rest("GET", "/site-tunnels") == [shown]
    assert 'culvert_site_tunnels{state="down"} 1.0' in (await world.admin.get("/api/v1/metrics")).text
    change = {name: it for name, it in described(owner="carol@corp.example").items() if name != "name"}
    path = "/api/v1/site-tunnels/berlin-paris"
    assert (await world.admin.put(path, json=change)).status_code == 428
    changed = await world.admin.put(path, json=change, headers={"If-Match": '"1"'})
    assert (changed.json()["owner"], changed.headers["etag"]) == ("carol@corp.example", '"2"')
    moved = change | {"ends": change["ends"][::-1]}
    assert (await world.admin.put(path, json=moved, headers={"If-Match": "*"})).status_code == 422
    shown = await world.rest("GET", "/site-tunnels/berlin-paris")
    assert (shown["suite"], shown["effective_suite"]) == (None, "aes-gcm-256")
    stale = await world.admin.delete("/api/v1/site-tunnels/berlin-paris", headers={"If-Match": '"7"'})
    assert stale.status_code == 412
    await world.rest("DELETE", "/site-tunnels/berlin-paris")
    assert await world.rest("GET", "/site-tunnels") == []
    assert (await world.admin.delete("/api/v1/site-tunnels/berlin-paris")).status_code == 404


@pytest.mark.usefixtures("gateways")
async def test_an_impossible_site_tunnel_is_refused(world: World) -> None:
    berlin, rome = described()["ends"][0], {"gateway": "gw-rome", "targets": [{"prefix": "10.3.0.0/24"}]}
    tcp, udp = (
        {"prefix": prefix, "protocol": protocol}
        for prefix, protocol in (("10.1.0.0/24", "tcp"), ("10.2.0.0/24", "udp"))
    )
    wrong: list[tuple[dict[str, Any], str, str]] = [
        (ends("10.1.0.0/24", "10.9.0.0/24"), "REQUEST_INVALID", "gw-paris has no neighbour in 10.9.0.0/24"),
        (ends("10.1.0.0/24", "10.99.1.0/24"), "REQUEST_INVALID", "10.99.1.0/24 is gw-berlin's own"),
        (ends(tcp, udp), "REQUEST_INVALID", "no packet can fit"),
        ({"ends": [berlin, berlin]}, "REQUEST_INVALID", "two gateways"),
        ({"ends": [berlin, rome]}, "NOT_FOUND", "gw-rome"),
        ({"suite": "aes-cbc-hmac-sha1-96"}, "SUITE_LEGACY", "gw-berlin"),
    ]
    for fields, reason, said in wrong:
        answer = await post(world, described(**fields))
        assert (answer.json()["reason"], said in answer.text) == (reason, True), answer.text


@pytest.mark.usefixtures("gateways")
async def test_a_packet_has_one_tunnel(world: World) -> None:
    web, mail = ({"prefix": "10.2.0.0/24", "protocol": "tcp", "ports": [port]} for port in (443, 25))
    assert (await post(world, described(**ends("10.1.0.0/24", web)))).status_code == 201
    assert (await post(world, described("mail", **ends("10.1.0.0/24", mail)))).status_code == 201
    refused = await post(world, described("both", **ends("10.1.0.10/32", "10.2.0.0/24")))
    assert refused.json()["reason"] == "ALREADY_EXISTS"
    assert "carries some of the same packets" in refused.text
    # A prefix of one site cannot be another's.
    lan = {"port": 2, "mac": "02:00:00:00:02:03", "address": "10.1.0.65", "prefix": "10.1.0.64/26"}
    lan |= {"neighbours": {"10.1.0.70": "02:00:00:00:03:03"}}
    await world.add_gateway("gw-rome", free_port(), 3, lan=lan)
    rome = {"gateway": "gw-rome", "targets": [{"prefix": "10.1.0.64/26"}]}
    inside = await post(world, described("rome", ends=[described()["ends"][0], rome]))
    assert inside.json()["reason"] == "REQUEST_INVALID"
    assert "10.1.0.64/26 is behind gw-rome, but 10.1.0.0/24 is gw-berlin's own" in inside.text


@pytest.mark.usefixtures("gateways")
async def test_a_site_tunnels_gateway_cannot_move_or_be_deleted(world: World) -> None:
    assert (await post(world, described())).status_code == 201
    moved = await put(world, f"/gateways/{PARIS}", address="198.51.100.3")
    gone = await world.admin.delete(f"/api/v1/gateways/{PARIS}")
    for answer in (moved, gone):
        assert (answer.status_code, answer.json()["reason"]) == (409, "GATEWAY_IN_USE"), answer.text
        assert "an end of berlin-paris" in answer.text
    unfit = await put(world, f"/gateways/{PARIS}", pool="10.1.0.0/24")
    assert (unfit.status_code, unfit.json()["reason"]) == (409, "GATEWAY_IN_USE"), unfit.text
    assert "10.1.0.0/24 is gw-paris's own" in unfit.text
    assert (await put(world, f"/gateways/{PARIS}", pool="10.99.7.0/24")).status_code == 200


@pytest.mark.usefixtures("gateways")
async def test_draining_a_site_tunnels_gateway_is_refused(world: World) -> None:
    assert (await world.rest("GET", f"/gateways/{BERLIN}"))["end_of"] == []
    assert (await post(world, described())).status_code == 201
    assert (await world.rest("GET", f"/gateways/{PARIS}"))["end_of"] == ["berlin-paris"]
    path = f"/api/v1/gateways/{BERLIN}/drain"
    refused = await world.admin.post(path)
    assert (refused.status_code, refused.json()["reason"]) == (409, "GATEWAY_NEEDED")
    assert "serves the tunnel berlin-paris" in refused.json()["detail"]
    drained = await world.admin.post(f"{path}?anyway=true")
    assert (drained.json()["end_of"], drained.json()["draining_since"] is None) == (["berlin-paris"], False)


@pytest.mark.usefixtures("gateways")
async def test_site_tunnels_are_managed_from_a_shell(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, file = world.settings, tmp_path / "tunnel.toml"
    file.write_text("""
name = "berlin-paris"
owner = "bob@corp.example"
ends = [
    { gateway = "gw-berlin", targets = [{ prefix = "10.1.0.0/24" }] },
    { gateway = "gw-paris", resources = ["web"] },
]
""")
    await world.add_resource("web", [PARIS], address="10.2.0.10", users=[])
    await administration.add_site_tunnel(settings, file)
    with pytest.raises(CallRefusedError, match="exists already"):
        await administration.add_site_tunnel(settings, file)
    capsys.readouterr()
    await administration.list_site_tunnels(settings)
    listed = capsys.readouterr().out
    assert listed.split()[:5] == ["berlin-paris", "gw-berlin", "═", "gw-paris", "down"]
    assert "for web (The gateway gw-berlin cannot be reached" in listed
    file.write_text('suite = "aes-gcm-128"')
    await administration.change_site_tunnel(settings, "berlin-paris", file)
    changed = await world.rest("GET", "/site-tunnels/berlin-paris")
    assert (changed["suite"], changed["ends"][1]["resources"]) == ("aes-gcm-128", ["web"])
    await administration.remove_site_tunnel(settings, "berlin-paris")
    assert await world.rest("GET", "/site-tunnels") == []
