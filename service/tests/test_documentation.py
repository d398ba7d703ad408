"""The site of documentation at a whole controller, as `make docs` has built it: in a browser, under its policy."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from culvert_service.config import Settings
from culvert_service.http import documentation
from fastapi import FastAPI
from playwright.async_api import Browser, expect

from .conftest import World
from .console_page import SCREENS, chromium_running, console

SITE = Settings(state_dir=Path("/nowhere")).documentation


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


@pytest.mark.slow
async def test_a_person_finds_a_reason_by_search_and_by_its_address(world: World, running: Browser) -> None:
    assert SITE.is_dir(), "make docs"
    async with console(world, running) as shown:
        page = shown.page
        asked: list[str] = []
        page.on("request", lambda it: asked.append(it.url))
        answer = await page.goto(f"{shown.url}/docs")
        assert answer
        assert answer.url == f"{shown.url}/docs/"
        assert "unsafe" not in answer.headers["content-security-policy"]
        await expect(page.locator("h1")).to_contain_text("Culvert")
        SCREENS.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=SCREENS / "documentation.png")
        await page.get_by_role("button", name="Search").first.click()
        await page.keyboard.type("GATEWAY_DOWN")
        await page.locator("a[href*=GATEWAY_DOWN]").first.click()
        await expect(page.get_by_role("heading", name="What to do")).to_be_visible()
        assert "/docs/reasons/GATEWAY_DOWN" in page.url
        # The address that an error has.
        refused = (await world.anyone.get("/api/v1/users")).json()
        await page.goto(f"{shown.url}{refused['type']}")
        await expect(page.get_by_role("heading", name=refused["reason"])).to_be_visible()
        assert [it for it in asked if not it.startswith((shown.url, "data:", "blob:"))] == []


@pytest.mark.slow
async def test_pages_are_compressed_on_request_and_found_without_suffix(world: World) -> None:
    front = await world.anyone.get("/docs/", headers={"Accept-Encoding": "identity"})
    packed = await world.anyone.get("/docs/", headers={"Accept-Encoding": "gzip"})
    assert front.text == packed.text
    assert packed.headers["content-encoding"] == "gzip"
    again = await world.anyone.get("/docs/", headers={"If-None-Match": front.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    missing = await world.anyone.get("/docs/nowhere/at/all")
    assert missing.status_code == 404
    assert 'href="/docs/assets/' in missing.text
    for path in ("api", "reasons/NO_POLICY", "settings/controller", "commands/culvert", "rest/index"):
        assert (await world.anyone.get(f"/docs/{path}")).status_code == 200, path


async def _ask(folder: Path, path: str) -> httpx.Response:
    app = FastAPI()
    documentation.install(app, folder)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://culvert") as client:
        return await client.get(path)


async def test_without_a_built_site_the_page_says_how_to_build_it(tmp_path: Path) -> None:
    answer = await _ask(tmp_path / "none", "/docs/reasons/NO_POLICY")
    assert "make docs" in answer.text
    assert "'unsafe" not in answer.headers["Content-Security-Policy"]


async def test_a_final_slash_leads_to_the_page(tmp_path: Path) -> None:
    (tmp_path / "reasons").mkdir()
    for name in ("index.html", "404.html", "reasons/NO_POLICY.html"):
        (tmp_path / name).write_text("page")
    answer = await _ask(tmp_path, "/docs/reasons/NO_POLICY/")
    assert (answer.status_code, answer.headers["location"]) == (307, "/docs/reasons/NO_POLICY")
    assert (await _ask(tmp_path, "/docs/nothing/")).status_code == 404


@pytest.mark.parametrize("path", ["../secret", "%2e%2e/secret", "..%2fsecret", "assets/../../secret"])
async def test_no_file_beside_the_site_is_served(path: str, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "secret").write_text("secret")
    for name in ("index.html", "404.html"):
        (tmp_path / "site" / name).write_text("page")
    assert "secret" not in (await _ask(tmp_path / "site", f"/docs/{path}")).text
