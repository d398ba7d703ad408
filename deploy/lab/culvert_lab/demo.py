"""The first page, from nothing to a verdict: what `make demo` runs.

network, servers, parts ─► enrol ─► out of reach? ─► code ─► click ─► rekey under load ─► idle ─► verdict ─► stay up
                                    └───────────────── capture of the internet ─────────────────┘
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import NamedTuple

from culvert_lab import (
    administrator,
    bind9,
    capture,
    intranet,
    laptop,
    parts,
    targets,
    timeline_svg,
    timeline_text,
)
from culvert_lab import topology as net
from culvert_lab.admin import Admin
from culvert_lab.capture import Seen
from culvert_lab.errors import PortTakenError, StepError
from culvert_lab.expose import relay
from culvert_lab.lab import Lab
from culvert_lab.process import Running
from culvert_lab.progress import Progress
from culvert_lab.report import Report
from culvert_lab.timeline import Timeline
from culvert_lab.topology import Site

BUILD = parts.ROOT / "build"
URL = f"http://{net.WIKI_NAME}/"

# Low limits, so that what takes hours in an office takes seconds here.
IDLE_SECONDS = 6
SOFT_PACKETS = 5000
DOWNLOAD_BYTES = 24 << 20


@dataclass(frozen=True, slots=True)
class Joined:
    """The parts, up and joined."""

    bind: bind9.Bind9
    controller: parts.Controller
    updater: Running
    gateway: Running
    crypto_hosts: dict[str, Running]
    web: Running

    @property
    def admin(self) -> Admin:
        return self.controller.admin


async def run(*, check: bool) -> None:
    """The whole demo. With `check` it ends after the verdict, otherwise it stays up until cancelled. Raises LabError."""
    progress = Progress()
    lab = Lab(BUILD / "lab")
    logs = BUILD / "demo-logs"
    shutil.rmtree(logs, ignore_errors=True)
    try:
        async with progress.step("Network of six namespaces"):
            await lab.up()
        joined = await join(lab, progress)
        await _first_page(lab, joined, progress)
        if not check:
            await _stay(lab, joined.admin, progress)
    except Exception:
        if lab.is_up:
            shutil.copytree(lab.work / "logs", logs)
            progress.say(f"\n  The parts' logs are in {logs}")
        raise
    finally:
        if lab.is_up:
            async with progress.step("Stopped; no process, no namespace left"):
                await lab.down()
        _hand_over()


async def join(lab: Lab, progress: Progress, settings: Mapping[str, str] | None = None) -> Joined:
    """Start every part but the laptop's and join them: afterwards the wiki is published. Raises LabError."""
    progress.head("The parts")
    async with progress.step("Intranet: web server on " + net.WIKI_ADDRESS):
        web = await intranet.start(lab)
    async with progress.step(f"Name server: BIND 9, zone {net.ZONE}"):
        bind = await bind9.start(lab)
    async with progress.step("Controller: Postgres, migrations, certificate authorities, APIs"):
        controller = await parts.start_controller(lab, settings)
    async with progress.step(f"Gateway: {targets.choose().name} with its bundle"):
        await parts.register_gateway(lab, controller.admin)
        crypto_hosts = await parts.start_crypto_hosts(lab, controller.admin)
        gateway = await parts.start_gateway(lab)
    async with progress.step("Gateway online: P4 program pushed over P4Runtime, entries written"):
        await parts.gateway_online(controller.admin)
    async with progress.step(f"DNS: {net.WIKI_NAME} published, A and TXT {parts.TXT}"):
        await parts.add_zone(controller.admin, bind)
        updater = await parts.start_dns_updater(lab, bind)
        await parts.create_user(controller.admin)
        rekey = {"soft_packets": SOFT_PACKETS}
        await parts.create_resource(controller.admin, idle_seconds=IDLE_SECONDS, rekey=rekey)
        await parts.wait_published(lab, bind)
    return Joined(bind, controller, updater, gateway, crypto_hosts, web)


async def _first_page(lab: Lab, joined: Joined, progress: Progress) -> None:
    progress.head("The laptop")
    async with progress.step(
        f"{net.WIKI_ADDRESS} is out of reach; a packet sent to it in clear is caught"
    ) as found:
        control = await _control(lab)
        found.text = f"{control.cleartext} frames"
    watch = await capture.start(lab, BUILD / "demo.pcapng")
    async with progress.step("culvertd runs") as found:
        await laptop.start_daemon(lab)
    async with progress.step("Enrolled with an invitation"):
        uri = await laptop.enrol(lab, await parts.invite(joined.admin))
    # With a code this packet would open the tunnel before the click.
    async with progress.step(f"{net.WIKI_ADDRESS} is still out of reach, and nothing leaks"):
        await _unreachable(lab)
    async with progress.step("One code proven"):
        await laptop.prove_code(lab, uri)

    progress.head("The click")
    async with progress.step(f"Chromium opens {URL}") as found:
        line = await click(lab, BUILD / "demo.png")
        found.text = f"page in {line.total:.1f} ms"
    (BUILD / "demo.svg").write_text(timeline_svg.render(line))

    progress.head("Afterwards")
    async with progress.step(f"{DOWNLOAD_BYTES >> 20} MiB downloaded while the keys change") as found:
        rekeyed = await rekey_under_load(lab, joined.admin)
        found.text = f"{rekeyed.rekeys} rekeys, {rekeyed.dropped} packets dropped"
    async with progress.step("Idle: the tunnel closes by itself, the gateway's entries go") as found:
        left = await idle(joined.admin)
        found.text = f"{left} entries left"
    async with progress.step("The internet saw ESP, DNS and the controller's TLS") as found:
        seen = await watch.stop()
        found.text = f"{seen.esp} ESP packets, {seen.cleartext} in clear"

    report = _report(line, seen, control, rekeyed, left)
    report.write(BUILD / "demo.json")
    progress.head("The time line of that click")
    progress.say(timeline_text.render(line, colour=progress.fancy))
    progress.say(
        f"  Page {BUILD / 'demo.png'}   picture {BUILD / 'demo.svg'}   figures {BUILD / 'demo.json'}"
        f"   capture {BUILD / 'demo.pcapng'}"
    )
    if failures := report.failures():
        samples = "".join(f"\n    {sample}" for sample in seen.cleartext_samples)
        raise StepError("This does not hold: " + "; ".join(failures) + "." + samples)
    progress.say("\n  Everything held.")


async def click(lab: Lab, picture: Path) -> Timeline:
    """Open the page in Chromium through a tunnel that is not there yet. Raises StepError when it is not the right page."""
    visit = await laptop.open_page(lab, URL, picture)
    if visit.error:
        raise StepError(f"The page did not open: {visit.error}\n{await laptop.why(lab)}")
    if visit.status != 200 or net.MARKER not in visit.text:
        raise StepError(f"Not the intranet's page: status {visit.status}, title {visit.title!r}")
    if not any(_in_pool(word) for word in visit.text.split()):
        raise StepError("The intranet did not see an address of the inner pool")
    return await laptop.timeline(lab, net.WIKI_NAME, visit)


class Rekeyed(NamedTuple):
    """The figures of a download under rekeys. TCP repeats late data, too: `repeated` alone is no loss."""

    rekeys: int
    missing: int
    repeated: int
    dropped: int


async def rekey_under_load(lab: Lab, admin: Admin) -> Rekeyed:
    """Download while soft limits are reached, and ask both ends of the tunnel what they dropped. Raises StepError."""
    before = await laptop.tunnel(lab, net.WIKI_NAME)
    dropped = -sum((await laptop.status(lab)).drops.values())
    rate = targets.choose().download_rate
    fetched = await laptop.download(lab, f"{URL}download?bytes={DOWNLOAD_BYTES}&rate={rate}")
    if fetched.error:
        raise StepError(f"The download broke off after {fetched.received} bytes: {fetched.error}")
    after = await laptop.tunnel(lab, net.WIKI_NAME)
    dropped += await admin.tunnel_drops(parts.GATEWAY)
    dropped += sum((await laptop.status(lab)).drops.values())
    return Rekeyed(after.generation - before.generation, fetched.missing, await intranet.resent(lab), dropped)


async def idle(admin: Admin) -> int:
    """Wait until the tunnel is closed; how many of its entries are still on the gateway. Raises StepError."""
    await admin.until("/tunnels", lambda tunnels: not tunnels, "An idle tunnel closed", IDLE_SECONDS + 20.0)
    return await admin.tunnel_entries(parts.GATEWAY)


async def _control(lab: Lab) -> Seen:
    """The capture's negative control: what goes out in clear is caught, before there is a culvertd to hold it back."""
    path = lab.work / "control.pcapng"
    watch = await capture.start(lab, path, name="capture-control")
    await _unreachable(lab)
    return await watch.stop()


async def _unreachable(lab: Lab) -> None:
    def connect() -> bool:
        try:
            socket.create_connection((net.WIKI_ADDRESS, 80), timeout=1.0).close()
        except OSError:
            return False
        return True

    if await lab.inside(Site.LAPTOP).run(connect):
        raise StepError(f"{net.WIKI_ADDRESS} can be reached without a tunnel")


def _report(line: Timeline, seen: Seen, control: Seen, rekeyed: Rekeyed, left: int) -> Report:
    return Report(
        first_page_ms=round(line.total, 3),
        dns_held_ms=round(line.held_ms, 3),
        tunnel_setup_ms=round(line.setup_ms, 3),
        esp_packets=seen.esp,
        cleartext_packets=seen.cleartext,
        bytes_lost_at_rekey=rekeyed.missing + (rekeyed.repeated if rekeyed.dropped else 0),
        bytes_repeated=rekeyed.repeated,
        packets_dropped=rekeyed.dropped,
        entries_left=left,
        rekeys=rekeyed.rekeys,
        frames_captured=seen.frames,
        frames_lost_by_capture=seen.lost,
        control_cleartext_packets=control.cleartext,
    )


async def _stay(lab: Lab, admin: Admin, progress: Progress) -> None:
    command = (
        f"sudo {parts.PROGRAMS / 'culvert-lab'}"
        if "SUDO_UID" in os.environ
        else parts.PROGRAMS / "culvert-lab"
    )
    password = await administrator.create(lab, admin)
    async with AsyncExitStack() as relayed:
        progress.head("The lab stays up")
        base = f"https://127.0.0.1:{net.REST_PORT}"
        try:
            await relayed.enter_async_context(relay(lab.inside(Site.CONTROLLER), net.REST_PORT))
        except PortTakenError:
            base = "https://127.0.0.1:PORT"
            progress.say(f"  {net.REST_PORT} is taken here           {command} expose --port PORT")
        progress.say(f"  The admin console         {base}/console/")
        progress.say(f"    name and password       {administrator.NAME}   {password}")
        progress.say(f"    a code, good for once   {command} code")
        progress.say("    (the certificate is of the lab's own CA: the browser asks before it goes on)")
        progress.say(f"  A shell on the laptop     {command} shell laptop")
        progress.say(f"    there, for example      curl {URL}     culvert status")
        progress.say(
            f"    (an idle tunnel closes after {IDLE_SECONDS} s here, so that you can see it happen)"
        )
        progress.say(f"  The REST API's docs       {base}/docs/api")
        progress.say(f"    its token is in         {BUILD / 'lab/controller/run/controller/admin-token'}")
        progress.say("  Stop                      Ctrl-C")
        await asyncio.Event().wait()


def _in_pool(word: str) -> bool:
    try:
        return ip_address(word) in ip_network(net.INNER_POOL)
    except ValueError:
        return False


def _hand_over() -> None:
    """Results made through sudo belong to the person, not to root."""
    if "SUDO_UID" in os.environ:
        for result in BUILD.glob("demo*"):
            for path in (result, *result.rglob("*")):
                os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))
