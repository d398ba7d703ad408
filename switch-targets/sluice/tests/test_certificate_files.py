"""Certificates replaced under a running switch: new connections see them, those that are there go on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import sluice_entries as entries
from gateway_authority import CLIENT, SERVER, Authority
from gateway_target import CLIENT_NAME
from raw_client import Code, RawClient
from sluice_rig import Controller, Sluice

pytestmark = pytest.mark.slow


@pytest.fixture
def files(arguments: dict[str, str], tmp_path: Path) -> Path:
    """A folder of the switch's own, where its certificate, key and client CA are."""
    for option in ("--cert", "--key", "--client-ca"):
        arguments[option] = str(shutil.copy(arguments[option], tmp_path))
    return tmp_path


async def admitted(address: str, authority: Authority) -> bool:
    async with RawClient(address, authority) as client:
        return (await client.refused(client.write()))[0] is not Code.UNAVAILABLE


async def test_a_new_authority_is_taken_and_the_primary_stays(
    files: Path,
    sluice: Sluice,
    address: str,
    infrastructure: Authority,
    controller: Controller,
    tmp_path: Path,
) -> None:
    fresh = Authority(tmp_path / "fresh")
    fresh.issue("gateway", "gateway", SERVER)
    fresh.issue("controller", CLIENT_NAME, CLIENT)
    async with controller() as switch:
        assert not await admitted(address, fresh)
        # The files are replaced one after the other: for a moment the key is not the certificate's.
        shutil.copy(fresh.folder / "gateway.pem", files)
        await sluice.says("new connections go on with the certificates of before")
        assert await admitted(address, infrastructure)
        shutil.copy(fresh.folder / "gateway.key", files)
        shutil.copy(fresh.certificate, files)
        await sluice.says("new connections see the certificates that are in the files now")
        assert await admitted(address, fresh)
        assert not await admitted(address, infrastructure)
        # The stream of before is the primary's still.
        assert switch.is_primary
        await switch.insert(entries.site())
