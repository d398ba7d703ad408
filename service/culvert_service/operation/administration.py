"""`culvert-controller user …`, `gateway …`, `site-tunnel …`: commands that call the running controller.

Schemas are imported where they are used: they need FastAPI, which takes half a second to import.
"""

from __future__ import annotations

import base64
import tomllib
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from culvert_service import private_files
from culvert_service.config import ConfigurationError, Settings
from culvert_service.operation.rest_client import call, read


async def add_user(settings: Settings, name: str, email: str) -> None:
    await call(settings, "POST", "/users", {"name": name, "email": email})
    print(f"Added {name}.")


async def invite_user(settings: Settings, name: str) -> None:
    made = await call(settings, "POST", "/invitations", {"user": name})
    print(f"For one computer of {name}, once, until {local_time(made['expires_at'])}:")
    print(made["link"])


async def list_invitations(settings: Settings) -> None:
    from culvert_service.rest.page import LIMIT_MAX

    for open_one in await call(settings, "GET", f"/invitations?limit={LIMIT_MAX}"):
        by = open_one["invited_by"] or "unknown"
        print(
            f"{open_one['id']:8} {open_one['user']:24} by {by:24} until {local_time(open_one['expires_at'])}"
        )


async def withdraw_invitation(settings: Settings, number: int) -> None:
    await call(settings, "DELETE", f"/invitations/{number}")
    print(f"Withdrew invitation {number}: its link enrols nothing any more.")


async def add_site_tunnel(settings: Settings, description: Path) -> None:
    """The fields of POST /site-tunnels in TOML."""
    made = await call(settings, "POST", "/site-tunnels", _read(description))
    print(f"Added {made['name']}. It is keyed as soon as both gateways are online.")


async def change_site_tunnel(settings: Settings, name: str, description: Path) -> None:
    """The fields in the TOML; the others stay."""
    from culvert_service.site_tunnels.schemas import EndIn, SiteTunnelChange

    shown, seen = await read(settings, _site_tunnel(name))
    fields = {field: value for field, value in shown.items() if field in SiteTunnelChange.model_fields}
    fields["ends"] = [{field: end[field] for field in EndIn.model_fields} for end in shown["ends"]]
    await call(settings, "PUT", _site_tunnel(name), fields | _read(description), seen)
    print(f"Changed {name}. What it carries before and after goes on.")


async def list_site_tunnels(settings: Settings) -> None:
    for tunnel in await call(settings, "GET", "/site-tunnels"):
        why = f" ({tunnel['reason']})" if tunnel["reason"] else ""
        ends = " ═ ".join(end["gateway"] for end in tunnel["ends"])
        resources = ", ".join(name for end in tunnel["ends"] for name in end["resources"])
        carried = f" for {resources}" if resources else ""
        print(f"{tunnel['name']:24} {ends:32} {tunnel['state']}{carried}{why}")


async def remove_site_tunnel(settings: Settings, name: str) -> None:
    await call(settings, "DELETE", _site_tunnel(name))
    print(f"Closed {name}.")


async def add_gateway(settings: Settings, description: Path) -> None:
    """The fields of POST /gateways in TOML."""
    made = await call(settings, "POST", "/gateways", _read(description))
    print(
        f"Added {made['name']}. Its certificate and keys: culvert-controller gateway bundle {made['name']} DIR"
    )


async def write_bundle(settings: Settings, name: str, directory: Path) -> None:
    """Write the files that sluice reads, with mode 0600. Raises OSError before a bundle is made that cannot be stored."""
    private_files.check_writable(directory)
    bundle = await call(settings, "POST", f"{_gateway(name)}/bundle")
    private_files.write_all(
        directory,
        {
            "controller-ca.pem": bundle["ca_pem"].encode(),
            "gateway.pem": bundle["certificate_pem"].encode(),
            "gateway.key": bundle["key_pem"].encode(),
            "kek.bin": base64.b64decode(bundle["kek"]),
        },
    )
    there = f"/etc/culvert/sluice/{name}"
    print(
        f"{directory} holds what the gateway {name} starts with. Carry it there to {there}, and keep no copy."
    )
    print(f"The switch runs as the user sluice: chown -R sluice:sluice {there}")


async def change_gateway(settings: Settings, name: str, description: Path) -> None:
    """The fields in the TOML; the others stay."""
    from culvert_service.gateways.schemas import GatewayIn

    shown, seen = await read(settings, _gateway(name))
    fields = {field: value for field, value in shown.items() if field in GatewayIn.model_fields}
    await call(settings, "PUT", _gateway(name), fields | _read(description), seen)
    print(f"Changed {name}. Tunnels that do not fit it any more are closed.")


async def drain_gateway(settings: Settings, name: str, *, anyway: bool) -> None:
    query = "?anyway=true" if anyway else ""
    found = await call(settings, "POST", f"{_gateway(name)}/drain{query}")
    print(f"{name} drains: {found['tunnels']} of its tunnels are open.")


async def undrain_gateway(settings: Settings, name: str) -> None:
    await call(settings, "POST", f"{_gateway(name)}/undrain")
    print(f"{name} serves again.")


async def remove_gateway(settings: Settings, name: str) -> None:
    await call(settings, "DELETE", _gateway(name))
    print(f"Removed {name}. Its switch keeps the program and no tunnel: turn it off.")


async def list_gateways(settings: Settings) -> None:
    for gateway in await call(settings, "GET", "/gateways"):
        why = f" ({gateway['reason']})" if gateway["state"] != "online" else ""
        state = gateway["state"] + (", draining" if gateway["draining_since"] else "")
        print(f"{gateway['name']:24} {gateway['address']:16} {gateway['tunnels']:6} tunnels  {state}{why}")


def local_time(instant: str) -> str:
    """An ISO 8601 time in this computer's time zone."""
    return datetime.fromisoformat(instant).astimezone().strftime("%Y-%m-%d %H:%M %Z")


def _site_tunnel(name: str) -> str:
    return f"/site-tunnels/{quote(name, safe='')}"


def _gateway(name: str) -> str:
    return f"/gateways/{quote(name, safe='')}"


def _read(description: Path) -> dict[str, object]:
    try:
        return tomllib.loads(description.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{description}: {error}") from None
