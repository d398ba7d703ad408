"""`culvert-controller backup`, `restore`, `rotate-…-ca`, `gateway reader` and `doctor`."""

from __future__ import annotations

from pathlib import Path

from culvert_service import controller, private_files
from culvert_service.audit import log as audit
from culvert_service.audit.log import Line
from culvert_service.config import Settings
from culvert_service.operation import backup
from culvert_service.operation.administration import local_time
from culvert_service.operation.doctor import examine
from culvert_service.pki import issuance, rotation
from culvert_service.pki.authority import (
    P4RUNTIME_READER_NAME,
    Authority,
    cross_certify,
    make_authority,
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
    # Told first: there is no rotation that the log does not know of.
    async with controller.reading(settings) as database, database.begin() as session:
        audit.tell(session, Line("ca.rotate", "ca/device"))
    until = (controller.now() + issuance.DEVICE.lifetime).date()
    rotation.rotate(settings.state_dir, "device", make_authority("device"), until)
    print("There is a new device CA. Each controller takes it within seconds; tunnels stay up.")
    print(f"Devices renew under it by themselves. The old CA is trusted to the end of {until}.")


async def rotate_infrastructure_ca(settings: Settings) -> None:
    async with controller.reading(settings) as database, database.begin() as session:
        audit.tell(session, Line("ca.rotate", "ca/infrastructure"))
    until = (controller.now() + issuance.SERVER.lifetime).date()
    fresh = make_authority("infrastructure")
    rotation.rotate(settings.state_dir, "infrastructure", fresh, until, cross_certify)
    print("There is a new infrastructure CA. Each controller takes it within seconds; tunnels stay up.")
    print("Who knows only the old one trusts the new one by its word; devices learn it as they renew.")
    print(f"Give gateways whose certificate is of the old CA a new bundle by {until}: doctor names them.")
    print("Invitations that have not been used name the old CA: give new ones.")


async def rotate_gateway_ca(settings: Settings) -> None:
    async with controller.reading(settings) as database, database.begin() as session:
        audit.tell(session, Line("ca.rotate", "ca/gateway"))
    until = (controller.now() + issuance.GATEWAY.lifetime).date()
    rotation.rotate(settings.state_dir, "gateway", make_authority("gateway"), until)
    print("There is a new gateway CA. Each controller takes it within seconds; tunnels stay up.")
    print(f"Give each gateway a new bundle by {until}: the old CA is trusted to the end of it.")


async def issue_reader(settings: Settings, directory: Path) -> None:
    private_files.check_writable(directory)
    async with controller.reading(settings) as database, database.begin() as session:
        audit.tell(session, Line("gateway.reader", "ca/infrastructure"))
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
    """Says each finding; whether all is well."""
    well = True
    async for finding in examine(settings):
        well = well and not finding.wrong
        print(f"{finding.what:24} {finding.wrong or 'ok'}")
        if finding.wrong:
            print(f"{'':24} {finding.remedy}")
    return well
