"""The demo network for real: namespaces, name server, intranet, browser, capture. Needs root."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import dns.exception
import pytest
from culvert_lab import bind9, capture, intranet, laptop, links
from culvert_lab import lab as lab_module
from culvert_lab.classify import Kind
from culvert_lab.errors import LabBusyError, ProgramError
from culvert_lab.lab import Lab, Mark, find_running
from culvert_lab.topology import DNS_ADDRESS, MARKER, WIKI_ADDRESS, ZONE, Site

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncGenerator[Lab]:
    async with Lab(tmp_path / "lab") as lab:
        yield lab


async def ping(lab: Lab, site: Site, address: str) -> bool:
    found = await lab.run(site, ["ping", "-c1", "-W1", "-q", address])
    return found.code == 0


async def test_the_router_joins_what_it_should_and_the_intranet_is_out_of_reach(lab: Lab) -> None:
    assert await ping(lab, Site.LAPTOP, "192.0.2.10")
    assert await ping(lab, Site.LAPTOP, DNS_ADDRESS)
    assert await ping(lab, Site.CONTROLLER, "10.255.0.2")
    assert not await ping(lab, Site.LAPTOP, WIKI_ADDRESS)
    assert not await ping(lab, Site.INTRANET, DNS_ADDRESS)


async def test_the_laptop_has_a_resolver_and_a_run_of_its_own(lab: Lab) -> None:
    read = "import os; print(open('/etc/resolv.conf').read().split()[1], os.listdir('/run'))"
    found = await lab.run(Site.LAPTOP, [sys.executable, "-c", read])
    address, inside = found.stdout.split(maxsplit=1)
    assert address == "127.0.0.1"
    assert "netns" not in inside


async def test_down_leaves_nothing(tmp_path: Path) -> None:
    before = _host()
    lab = Lab(tmp_path / "lab")
    await lab.up()
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready'); time.sleep(99)"
    )
    program = await lab.start("stubborn", Site.DNS, [sys.executable, "-c", stubborn])
    await program.ready("ready")
    await program.stop(grace=0.1)
    await lab.down()
    await lab.down()
    assert _host() == before
    assert not links.exists()
    assert not (tmp_path / "lab").exists()


NAMES = """
import os, subprocess
from culvert_lab import netns

netns.create("ours")
subprocess.run(["ip", "netns", "add", "theirs"], check=True)
netns.delete("ours")
netns.delete("theirs")
print(os.listdir("/run/netns"))
"""


async def test_namespaces_can_be_deleted_after_the_first_ip_netns_add() -> None:
    # As on a computer on which nobody has named a namespace yet.
    fresh = 'mount -t tmpfs none /run && exec "$0" -c "$1"'
    argv = ["unshare", "--mount", "sh", "-c", fresh, sys.executable, NAMES]
    found = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert (await found.communicate())[0] == b"[]\n"


CRASHES = """
import asyncio, pathlib, sys
from culvert_lab import lab as lab_module
from culvert_lab.lab import Lab, Mark, find_running
from culvert_lab.topology import Site

async def main():
    lab = Lab(pathlib.Path(sys.argv[1]))
    await lab.up()
    print((await lab.start("left", Site.DNS, ["sleep", "99"])).pid, flush=True)
    await asyncio.sleep(99)

asyncio.run(main())
"""


async def test_a_killed_lab_ends_its_programs_and_the_next_one_cleans_up(
    tmp_path: Path,
) -> None:
    argv = [sys.executable, "-c", CRASHES, str(tmp_path / "killed")]
    killed = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert killed.stdout
    left = int(await killed.stdout.readline())
    assert _runs(left)
    killed.kill()
    await killed.wait()
    assert links.exists()
    async with asyncio.timeout(30), Lab(tmp_path / "next") as lab:
        # A killed process ends when it next gets a processor.
        while _runs(left):  # noqa: ASYNC110  another process ends: there is no event to wait for
            await asyncio.sleep(0.05)
        assert await ping(lab, Site.LAPTOP, DNS_ADDRESS)
    assert not links.exists()


async def test_a_second_lab_is_refused(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(LabBusyError, match=str(os.getpid())):
        await Lab(tmp_path / "second").up()
    assert await ping(lab, Site.LAPTOP, DNS_ADDRESS)


async def test_a_lab_can_be_asked_for_more_often_than_its_socket_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lab_module, "LOCK", f"\0culvert-lab-test-{os.getpid()}")
    mark = await Mark.take()
    for _ in range(300):
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(find_running) == os.getpid()
    with lab_module.lab_connection() as held:
        held.settimeout(10)
        mark.remove()
        # The connection is reset while it still waits in the queue.
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.to_thread(held.recv, 1) == b""


async def test_a_program_that_fails_shows_its_last_words(lab: Lab) -> None:
    program = await lab.start("broken", Site.DNS, [sys.executable, "-c", "raise SystemExit('no such zone')"])
    with pytest.raises(ProgramError, match=r"broken ended with status 1(.|\n)*no such zone"):
        await program.ready("ready")


async def test_bind_takes_updates_and_transfers_from_the_key_alone(lab: Lab) -> None:
    server = await bind9.start(lab)
    outside = lab.inside(Site.CONTROLLER)
    assert await outside.run(server.ask, f"legacy.{ZONE}", "A") == [bind9.FOREIGN_ADDRESS]
    assert await outside.run(server.update, "wiki", "TXT", "ipsec-tunneling:yes") == "NOERROR"
    assert await outside.run(server.ask, f"wiki.{ZONE}", "TXT") == ['"ipsec-tunneling:yes"']
    assert ("TXT", '"ipsec-tunneling:yes"') in (await outside.run(server.transfer))[f"wiki.{ZONE}"]
    assert await outside.run(server.update, "evil", "A", "192.0.2.66", signed=False) == "REFUSED"
    with pytest.raises(dns.exception.DNSException):
        await outside.run(server.transfer, signed=False)


async def test_the_browser_renders_the_page_and_the_capture_sees_it_in_clear(
    lab: Lab, tmp_path: Path
) -> None:
    # The page on a site that the laptop reaches without a tunnel: what the demo must never show.
    await intranet.start(lab, site=Site.DNS, address=DNS_ADDRESS)
    watch = await capture.start(lab, tmp_path / "clear.pcapng")
    picture = tmp_path / "page.png"
    visit = await laptop.open_page(lab, f"http://{DNS_ADDRESS}/", picture)
    seen = await watch.stop()
    assert (visit.status, MARKER in visit.text, visit.page_ms > 0) == (200, True, True)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert seen.kinds[Kind.CLEARTEXT] > 10
    assert seen.lost == 0
    assert any("the intranet page's text" in why for why in seen.cleartext_samples)


async def test_a_name_that_does_not_exist_is_a_result(lab: Lab) -> None:
    assert "ERR_NAME_NOT_RESOLVED" in (await laptop.open_page(lab, "http://nowhere.corp.example/")).error


async def test_a_download_is_checked_byte_by_byte(lab: Lab) -> None:
    await intranet.start(lab, site=Site.DNS, address=DNS_ADDRESS)
    url = f"http://{DNS_ADDRESS}/download?bytes=3000001&rate=30000000"
    found = await laptop.download(lab, url)
    assert (found.intact, found.received, found.missing, found.error) == (True, 3_000_001, 0, "")


def _host() -> tuple[list[str], str, str]:
    """The machine's own links, addresses and forwarding, which the lab must not touch."""
    names = sorted(entry.name for entry in Path("/sys/class/net").iterdir())
    return names, Path("/proc/net/fib_trie").read_text(), Path("/proc/sys/net/ipv4/ip_forward").read_text()


def _runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "zombie" not in status.read_text()
