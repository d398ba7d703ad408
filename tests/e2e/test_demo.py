"""`make demo`, as a newcomer runs it: the whole first page, its verdict, the console, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from culvert_lab import parts, topology
from culvert_lab.console import Console, chromium_running, person
from playwright.async_api import expect

BUILD = parts.ROOT / "build"
KEYS = {
    "first_page_ms",
    "dns_held_ms",
    "tunnel_setup_ms",
    "esp_packets",
    "cleartext_packets",
    "bytes_lost_at_rekey",
    "entries_left",
}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_first_page_opens_and_nothing_is_left_behind() -> None:
    results = [BUILD / name for name in ("demo.json", "demo.png", "demo.svg")]
    for result in results:
        result.unlink(missing_ok=True)
    demo = subprocess.run(
        [parts.PROGRAMS / "culvert-lab", "demo", "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr

    figures = json.loads(results[0].read_text())
    assert figures.keys() >= KEYS
    assert figures["cleartext_packets"] == figures["bytes_lost_at_rekey"] == figures["entries_left"] == 0
    assert figures["esp_packets"] > 100
    assert 0 < figures["tunnel_setup_ms"] < figures["dns_held_ms"] < figures["first_page_ms"]
    assert all(result.stat().st_size > 1000 for result in results[1:])

    _nothing_is_left()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_the_demo_stays_up_and_its_account_opens_the_console() -> None:
    lab = parts.PROGRAMS / "culvert-lab"
    demo = await asyncio.create_subprocess_exec(lab, "demo", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert demo.stdout is not None
    said = ""
    while "Ctrl-C" not in said and (line := await demo.stdout.readline()):
        said += line.decode()
    try:
        url = re.search(r"(https://127\.0\.0\.1:8443)/console/\n", said)
        account = re.search(r"name and password +(\S+) +(\S+)\n", said)
        assert url is not None, said
        assert account is not None, said
        asked = await asyncio.create_subprocess_exec(lab, "code", stdout=subprocess.PIPE)
        code = (await asked.communicate())[0].decode().strip()
        async with chromium_running() as chromium:
            shown = Console(await (await person(chromium)).new_page(), url[1])
            await shown.open()
            await shown.sign_in_as(account[1], code, account[2])
            await expect(shown.page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
            assert not shown.faults
    finally:
        demo.send_signal(signal.SIGINT)
        said += (await demo.communicate())[0].decode()
    assert demo.returncode == 0, said
    _nothing_is_left()


def _nothing_is_left() -> None:
    assert not [site for site in topology.Site if (Path("/run/netns") / site.value).exists()]
    assert not (BUILD / "lab").exists()
    programs = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    ours = [line for line in programs.splitlines() if f"{parts.ROOT}/" in line]
    assert not [line for line in ours if "culvertd" in line or "release/sluice" in line]
