"""The public certificate by ACME, from Pebble: issued, renewed, refused; and what a server may not do to a controller."""

from __future__ import annotations

import ssl
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from culvert_lab.free_port import free_port
from culvert_service.config import Settings
from culvert_service.controller.database import open_database
from culvert_service.controller.lifecycle import Controller
from culvert_service.operation.rest_client import call
from sqlalchemy import text

from .conftest import settings_in, until
from .pebble import Pebble, needs_pebble, pebble
from .test_public_certificate import shown

NAME = "vpn.corp.example"


def settings_for(tmp_path: Path, database_url: str, server: Pebble, **fields: Any) -> Settings:
    return settings_in(
        tmp_path,
        database_url=database_url,
        public_rest_url=f"https://{NAME}",
        acme_directory=server.directory,
        acme_ca_file=server.ca_file,
        acme_terms_agreed=True,
        **fields,
    )


@pytest.mark.slow
@needs_pebble
async def test_controllers_of_one_database_share_a_certificate_and_renew_it(
    tmp_path: Path, database_url: str
) -> None:
    port = free_port()
    async with pebble(tmp_path / "pebble", port, seconds=20, nonces_refused_percent=25) as server:
        one = settings_for(tmp_path, database_url, server, controller_name="one")
        # The authority's connections all reach the second one, as through a load balancer.
        two = settings_for(
            tmp_path, database_url, server, controller_name="two", rest_listen=f"127.0.0.1:{port}"
        )
        async with AsyncExitStack() as stack:
            for settings in (one, two):
                database = await stack.enter_async_context(open_database(settings))
                await stack.enter_async_context(Controller(settings, database))
            browser = ssl.create_default_context(cadata=await server.root())

            async def certificate(settings: Settings) -> bytes:
                try:
                    return await shown(settings.rest_listen, browser, NAME)
                except ssl.SSLCertVerificationError:
                    return b""

            first = await until(lambda: certificate(one), bool)
            assert await until(lambda: certificate(two), bool) == first
            second = await until(lambda: certificate(two), lambda found: found not in (b"", first), 60)
            await until(lambda: certificate(one), lambda found: found == second)
            told = await call(one, "GET", "/controller")
            assert told["public_certificate_fault"] is None
            async with database() as session:
                row = (await session.execute(text("SELECT * FROM acme_certificates"))).one()
            assert b"PRIVATE KEY" not in b"".join(it for it in row if isinstance(it, bytes))
            assert row.challenge is None
    assert "renewalInfo" in (tmp_path / "pebble/log").read_text()
