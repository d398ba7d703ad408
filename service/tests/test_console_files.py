"""The console's files as the controller serves them: nothing else of the disk, and headers that keep a browser to them."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from culvert_service.http import console
from fastapi import FastAPI

PAGE = '<meta nonce="{{nonce}}"><script nonce="{{nonce}}" src="/console/assets/a-1.js"></script>'


@pytest.fixture
def built(tmp_path: Path) -> Path:
    dist = tmp_path / "dist"
    (dist / "assets").mkdir(parents=True)
    (dist / "index.html").write_text(PAGE)
    (dist / "assets" / "a-1.js").write_text("let one")
    (dist / "assets" / "a-1.js.br").write_bytes(b"compressed")
    (tmp_path / "secret").write_text("secret")
    return dist


async def asked(dist: Path, path: str, **headers: str) -> httpx.Response:
    app = FastAPI()
    assert console.install(app, dist)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://culvert") as client:
        return await client.get(f"/console/{path}", headers=headers)


async def test_each_page_has_a_nonce_of_its_own_and_no_unsafe_source(built: Path) -> None:
    first, second = await asked(built, ""), await asked(built, "resources/of/wiki")
    nonces = [
        re.findall(r"nonce-([\w-]+)", page.headers["Content-Security-Policy"]) for page in (first, second)
    ]
    assert nonces[0] != nonces[1]
    for page, nonce in zip((first, second), nonces, strict=True):
        assert len(nonce) == 1
        assert page.text == PAGE.replace("{{nonce}}", nonce[0])
        policy = page.headers["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert page.headers["Cache-Control"] == "no-store"


async def test_assets_are_immutable_and_compressed_on_request(built: Path) -> None:
    plain = await asked(built, "assets/a-1.js", **{"Accept-Encoding": "identity"})
    assert (plain.text, plain.headers["Content-Type"]) == ("let one", "text/javascript; charset=utf-8")
    assert "immutable" in plain.headers["Cache-Control"]
    assert "Content-Encoding" not in plain.headers
    app = FastAPI()
    console.install(app, built)
    async with (
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://culvert") as client,
        client.stream("GET", "/console/assets/a-1.js", headers={"Accept-Encoding": "gzip, br"}) as packed,
    ):
        assert packed.headers["Content-Encoding"] == "br"
        assert b"".join([part async for part in packed.aiter_raw()]) == b"compressed"


async def test_an_asset_of_an_earlier_version_is_not_found(built: Path) -> None:
    assert (await asked(built, "assets/a-0.js")).status_code == 404


@pytest.mark.parametrize("path", ["../secret", "%2e%2e/secret", "..%2fsecret", "assets/../../secret"])
async def test_no_other_file_is_served(built: Path, path: str) -> None:
    assert "secret" not in (await asked(built, path)).text


def test_without_a_console_there_is_the_api_alone(tmp_path: Path) -> None:
    assert not console.install(FastAPI(), tmp_path / "nothing")
