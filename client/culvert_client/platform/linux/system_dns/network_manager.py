"""NetworkManager: told to leave resolv.conf alone, by a file in /run that no restart of the computer outlives."""

from __future__ import annotations

from pathlib import Path

from culvert_client.platform.linux.system_dns.bus import call, system_bus
from culvert_client.platform.linux.system_dns.choice import NETWORK_MANAGER_NAME

# NetworkManager.conf(5): it goes on writing what it would to /run/NetworkManager.
_LEAVE_ALONE = "# Written by culvertd, which removes it when it stops.\n[main]\nrc-manager=unmanaged\n"
# org.freedesktop.NetworkManager.Reload: read the configuration again, then write resolv.conf by it.
_CONFIGURATION, _RESOLV_CONF = 0x1, 0x2


def leave_alone(run: Path) -> None:
    file = _file(run)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_LEAVE_ALONE)


def leaves_alone(run: Path) -> bool:
    """Whether it is still told so."""
    return _file(run).exists()


def take_back(run: Path) -> None:
    _file(run).unlink(missing_ok=True)


async def reload() -> None:
    """Raises OSError."""
    async with system_bus() as bus:
        for flag in (_CONFIGURATION, _RESOLV_CONF):
            path = "/org/freedesktop/NetworkManager"
            await call(bus, NETWORK_MANAGER_NAME, path, NETWORK_MANAGER_NAME, "Reload", "u", [flag])


def sources(run: Path) -> list[Path]:
    """The file that NetworkManager would write, without and with its own cache."""
    return [run / "NetworkManager/no-stub-resolv.conf", run / "NetworkManager/resolv.conf"]


def _file(run: Path) -> Path:
    return run / "NetworkManager/conf.d/culvert.conf"
