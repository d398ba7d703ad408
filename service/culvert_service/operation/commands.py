"""The commands of `culvert-controller` that need no running controller. `administration` has those that call one."""

from __future__ import annotations

import datetime
import hashlib
import json
import ssl
import tempfile
from pathlib import Path

from culvert_db import ActorKind, bind_database

from culvert_service import private_files
from culvert_service.admins.admin_token import AdminToken
from culvert_service.admins.service import Admins
from culvert_service.audit import retention, verifier
from culvert_service.audit.cut import CutKey
from culvert_service.audit.log import CONTROLLER, Actor, Line
from culvert_service.audit.transaction import begin
from culvert_service.config import ConfigurationError, Settings
from culvert_service.controller.database import open_for_changes, open_for_reading
from culvert_service.database import connect
from culvert_service.operation import backup
from culvert_service.operation.administration import local_time
from culvert_service.operation.doctor import examine, now
from culvert_service.pki import issuance, rotation
from culvert_service.pki.authority import (
    P4RUNTIME_READER_NAME,
    Authority,
    cross_certify,
    make_authority,
)
from culvert_service.pki.master_key import MasterKey


async def init(settings: Settings) -> None:
    """Create state and database if missing, and print how the first owner makes an account."""
    async with open_for_changes(settings) as database:
        for authority in ("infrastructure", "gateway", "device"):
            Authority.load(settings.state_dir, authority)
        AdminToken.load(settings.state_dir)
        admins = Admins(database, MasterKey.load(settings.state_dir), settings.rest_url, now)
        invited = await admins.first_owner(CONTROLLER)
    if invited is None:
        print("There is an owner. Owners invite others: POST /api/v1/admins/invitations")
        return
    print(explain_warning(settings), end="")
    print("For the first owner's account, within a day, in a browser:")
    print(f"  {invited.link}")
    print(f"or POST {settings.rest_url}/api/v1/setup")
    print(f'  {{"token": "{invited.token}", "name": "…", "password": "…"}}')


def explain_warning(settings: Settings) -> str:
    """Why browsers will warn of the controller's certificate, in lines. Empty if they get another."""
    if not settings.shows_own_ca or settings.trusted_proxies:
        return ""
    ca = settings.state_dir / "infrastructure-ca.pem"
    fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(ca.read_text())).hexdigest()
    return (
        "Browsers warn of this controller's certificate, because Culvert's own CA has issued it. Go on only if\n"
        "the browser shows this CA above the certificate, with the SHA-256 fingerprint\n"
        f"  {fingerprint}\n"
        f"Without a warning: install {ca} in browsers as a CA,\n"
        "or get a public certificate: culvert-controller setup --acme --port 443 --change\n\n"
    )


async def back_up(settings: Settings, target: Path) -> None:
    manifest = await backup.backup(settings, target)
    print(
        f"{target} holds the database at revision {manifest.revision}, and the keys of {settings.state_dir}."
    )
    print("Whoever has it is the controller: keep it as you keep those.")


async def restore(settings: Settings, source: Path) -> None:
    restored = await backup.restore(settings, source)
    print(f"The controller is as it was at {local_time(restored.made_at)}.")
    print("What could have been used up or revoked since is void:")
    for what, count in restored.void.items():
        print(f"  {count:6} {what}")
    print("A code of an authenticator that was shown before now is used up; the next one counts.")
    print("As they were, also where somebody has removed, revoked or changed them since:")
    for what, count in restored.back.items():
        print(f"  {count:6} {what}")
    print("Look through them, and through roles and passwords, and revoke again before you serve.")


async def rotate_device_ca(settings: Settings) -> None:
    # Logged first, so that no rotation is missing from the log.
    async with open_for_reading(settings) as database, begin(database, CONTROLLER) as transaction:
        transaction.audit(Line("ca.rotate", "ca/device"))
    until = (now() + issuance.DEVICE.lifetime).date()
    rotation.rotate(settings.state_dir, "device", make_authority("device"), until)
    print("There is a new device CA. Each controller takes it within seconds; tunnels stay up.")
    print(f"Devices renew under it by themselves. The old CA is trusted to the end of {until}.")


async def rotate_infrastructure_ca(settings: Settings) -> None:
    async with open_for_reading(settings) as database, begin(database, CONTROLLER) as transaction:
        transaction.audit(Line("ca.rotate", "ca/infrastructure"))
    until = (now() + issuance.SERVER.lifetime).date()
    fresh = make_authority("infrastructure")
    rotation.rotate(settings.state_dir, "infrastructure", fresh, until, cross_certify)
    print("There is a new infrastructure CA. Each controller takes it within seconds; tunnels stay up.")
    print("Who knows only the old one trusts the new one by its word; devices learn it as they renew.")
    print(f"Give gateways whose certificate is of the old CA a new bundle by {until}: doctor names them.")
    print("Invitations that have not been used name the old CA: give new ones.")


async def rotate_gateway_ca(settings: Settings) -> None:
    async with open_for_reading(settings) as database, begin(database, CONTROLLER) as transaction:
        transaction.audit(Line("ca.rotate", "ca/gateway"))
    until = (now() + issuance.GATEWAY.lifetime).date()
    rotation.rotate(settings.state_dir, "gateway", make_authority("gateway"), until)
    print("There is a new gateway CA. Each controller takes it within seconds; tunnels stay up.")
    print(f"Give each gateway a new bundle by {until}: the old CA is trusted to the end of it.")


async def issue_reader(settings: Settings, directory: Path) -> None:
    private_files.check_writable(directory)
    async with open_for_reading(settings) as database, begin(database, CONTROLLER) as transaction:
        transaction.audit(Line("gateway.reader", "ca/infrastructure"))
    ca = Authority.load(settings.state_dir, "infrastructure")
    reader = ca.issue_p4runtime_reader()
    chain = reader.certificate.pem + ca.crossed_pem
    gateways = Authority.load(settings.state_dir, "gateway").trusted_pem + ca.trusted_pem
    files = {"ca.pem": gateways, "reader.pem": chain, "reader.key": reader.key_pem}
    private_files.write_all(directory, files)
    until = reader.certificate.expires_at.date()
    print(f"{directory} holds a certificate that reads gateways and changes nothing, until {until}.")
    print(f"It is for gateways that are started with --reader-name {P4RUNTIME_READER_NAME}.")
    print("A gateway shows a certificate for its name here, whatever address it is reached at.")


async def doctor(settings: Settings) -> bool:
    """Print each finding. True if there is no fault."""
    well = True
    async for finding in examine(settings):
        well = well and not finding.wrong
        print(f"{finding.what:24} {finding.wrong or 'ok'}")
        if finding.wrong:
            print(f"{'':24} {finding.remedy}")
    return well


async def verify(settings: Settings) -> bool:
    """Print the result. True if every line is unchanged. The printed ends show whether later lines are missing."""
    key = CutKey(MasterKey.load(settings.state_dir))
    async with open_for_reading(settings) as database:
        found = await verifier.verify(database, key)
    if found.broken is not None:
        print(f"chain {found.broken.chain}, line {found.broken.seq}: {found.broken.why}")
        return False
    print(f"{found.lines} lines are as they were written. The chains end at:")
    for chain, (seq, end) in sorted(found.ends.items()):
        print(f"  chain {chain}, line {seq}, hash {end.hex()}")
    return True


async def cut(settings: Settings, before: datetime.datetime, file: Path | None) -> None:
    """Cut old lines, and print what was done. Raises ConfigurationError when nothing was cut."""
    key = CutKey(MasterKey.load(settings.state_dir))
    by = Actor(ActorKind.SYSTEM, "command line")
    async with open_for_reading(settings) as database:
        try:
            done = await retention.cut(database, by, key, before, now(), file)
        except (retention.LogBrokenError, retention.ExportRefusedError, ValueError) as error:
            raise ConfigurationError(f"nothing was cut: {error}") from None
    print(f"{done.lines} lines that were written before {before:%Y-%m-%d %H:%M %Z} are cut.")
    if file is not None and done.export is not None:
        print(f"{file} holds them; its SHA-256 is {done.export.hex()}.")
    print(f"The cut is signed by the key {key.public.hex()}.")


async def openapi() -> None:
    """Print the REST API's OpenAPI document. Needs neither settings nor a database: nothing is started."""
    # The whole controller, which the other commands do not need: a second of computing.
    from culvert_service.controller.lifecycle import Controller

    engine = connect("postgresql://nobody@localhost/none")
    with tempfile.TemporaryDirectory() as state:
        offered = Controller(Settings(state_dir=Path(state)), bind_database(engine)).openapi()
    print(json.dumps(offered, indent=1, sort_keys=True))
    await engine.dispose()
