"""A person's actions at the laptop: enrol, type a code, open a page, download a file, look at the status."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyotp
from culvert_proto import local_pb2
from google.protobuf import json_format
from pyotp.totp import TOTP

from culvert_lab import topology as net
from culvert_lab.download import Download
from culvert_lab.errors import StepError
from culvert_lab.lab import Lab
from culvert_lab.process import Finished, Running
from culvert_lab.timeline import Timeline, compose
from culvert_lab.topology import Site
from culvert_lab.visit import Visit

PROGRAMS = Path(sys.executable).parent
CULVERT = str(PROGRAMS / "culvert")
NAME = "alice-laptop"

CLI_SECONDS = 30.0
BROWSER_SECONDS = 90.0
DOWNLOAD_SECONDS = 300.0


async def start_daemon(
    lab: Lab,
    name: str = "culvertd",
    *,
    upstream: str = net.DNS_ADDRESS,
    env: Mapping[str, str] | None = None,
) -> Running:
    """Start culvertd; its state survives a restart, not the lab. Raises ProgramError."""
    argv = [str(PROGRAMS / "culvertd"), "--state-dir", "/run/state", "--dns-upstream", upstream]
    program = await lab.start(name, Site.LAPTOP, argv, env=env)
    await program.ready(r"\bready\b")
    return program


async def enrol(lab: Lab, link: str, name: str = NAME) -> str:
    """Enrol with an invitation; the authenticator's otpauth:// URI. Raises StepError with the refusal."""
    kept = f"/run/tmp/{name}.totp"
    await _culvert(lab, "enroll", "--name", name, "--totp-uri-file", kept, stdin=link)
    file = lab.run_directory(Site.LAPTOP) / "tmp" / f"{name}.totp"
    uri = file.read_text().splitlines()[0]
    file.unlink()
    return uri


async def prove_code(lab: Lab, uri: str) -> None:
    """Type the code that the authenticator shows now. Raises StepError with the refusal."""
    await _culvert(lab, "code", stdin=code_of(uri))


def code_of(uri: str) -> str:
    """The authenticator's present code; `uri` is its otpauth:// one."""
    otp = pyotp.parse_uri(uri)
    assert isinstance(otp, TOTP)
    return otp.now()


async def status(lab: Lab) -> local_pb2.Status:
    """The daemon's status. Raises StepError when the daemon does not answer."""
    return json_format.Parse(await _culvert(lab, "status", "--json"), local_pb2.Status())


async def tunnel(lab: Lab, fqdn: str) -> local_pb2.Tunnel:
    """The open tunnel of a name. Raises StepError when there is none."""
    found = await status(lab)
    for each in found.tunnels:
        if each.fqdn == fqdn:
            return each
    raise StepError(f"No tunnel for {fqdn} is open. {_last_error(found)}")


async def timeline(lab: Lab, fqdn: str, visit: Visit) -> Timeline:
    """The newest click for a name, joined with the browser's own times. Raises StepError when the daemon has none."""
    found = await status(lab)
    for click in found.clicks:
        if click.fqdn == fqdn:
            steps = {step.name: (click.started_us + step.at_us) / 1000 for step in click.steps}
            try:
                return compose(fqdn, steps, visit.timings)
            except ValueError as error:
                why = f": {click.error.message}" if click.HasField("error") else ""
                raise StepError(f"{error}; it has {', '.join(steps)}{why}") from None
    raise StepError(f"The daemon has no time line for {fqdn}")


async def why(lab: Lab) -> str:
    """The daemon's newest denial or fault, in its own words."""
    return _last_error(await status(lab))


async def open_page(lab: Lab, url: str, picture: Path | None = None) -> Visit:
    """Open it in Chromium. A page that does not open is a Visit with an error. Raises StepError when Chromium fails."""
    argv = [sys.executable, "-m", "culvert_lab.browser", url, *([str(picture)] if picture else [])]
    return Visit(**_answer(await lab.run(Site.LAPTOP, argv, seconds=BROWSER_SECONDS), "Chromium"))


async def download(lab: Lab, url: str) -> Download:
    """Fetch known bytes and check them. Raises StepError when the program fails, not when the download does."""
    argv = [sys.executable, "-m", "culvert_lab.download", url]
    return Download(**_answer(await lab.run(Site.LAPTOP, argv, seconds=DOWNLOAD_SECONDS), "The download"))


async def _culvert(lab: Lab, *argv: str, stdin: str = "") -> str:
    # Links and codes go through stdin: an argument can be read by every user of a machine.
    found = await lab.run(Site.LAPTOP, [CULVERT, *argv], stdin=f"{stdin}\n", seconds=CLI_SECONDS)
    if found.code != 0:
        raise StepError(f"culvert {argv[0]} ended with status {found.code}: {found.stderr.strip()}")
    return found.stdout


def _last_error(found: local_pb2.Status) -> str:
    if not found.HasField("last_error"):
        return "The daemon knows of no error."
    return f"The daemon says: {found.last_error.message} {found.last_error.remedy}"


def _answer(found: Finished, who: str) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(found.stdout)
    except json.JSONDecodeError:
        raise StepError(f"{who} did not answer (status {found.code}):\n{found.stderr[-1500:]}") from None
    return answer
