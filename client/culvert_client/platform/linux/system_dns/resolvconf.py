"""The program resolvconf, in its two implementations: Debian's, and openresolv."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from culvert_client.platform.linux.system_dns.choice import SettingsOwner

PATIENCE = 20.0
"""Seconds: it runs the scripts of others."""

# Debian's puts lo.* first, and lists no server after a loopback address (interface-order(5),
# TRUNCATE_NAMESERVER_LIST_AFTER_LOOPBACK_ADDRESS in resolvconf(8)). openresolv does the same with -x and -m.
_NAMES = {SettingsOwner.RESOLVCONF: "lo.culvert", SettingsOwner.OPENRESOLV: "culvert"}
_ORDER = {SettingsOwner.RESOLVCONF: (), SettingsOwner.OPENRESOLV: ("-x", "-m", "0")}
_SOURCES = {SettingsOwner.RESOLVCONF: ("interface",), SettingsOwner.OPENRESOLV: ("interfaces", "keys")}


async def find_installed() -> SettingsOwner | None:
    program = shutil.which("resolvconf")
    # systemd's replacement for openresolv has no sources of its own.
    if program is None or _is_systemds(program):
        return None
    try:
        said = await _run("--version")
    except OSError:
        return SettingsOwner.RESOLVCONF
    return SettingsOwner.OPENRESOLV if "openresolv" in said else SettingsOwner.RESOLVCONF


async def add(owner: SettingsOwner, stub: str) -> None:
    """Raises OSError."""
    await _run(*_ORDER[owner], "-a", _NAMES[owner], given=f"nameserver {stub}\n")


async def remove(owner: SettingsOwner) -> None:
    """Raises OSError. Without -f openresolv fails for an unknown name."""
    await _run(*(("-f",) if owner is SettingsOwner.OPENRESOLV else ()), "-d", _NAMES[owner])


def sources(owner: SettingsOwner, run: Path) -> list[Path]:
    """The files with other programs' settings."""
    directories = [run / "resolvconf" / name for name in _SOURCES[owner]]
    files = [file for directory in directories if directory.is_dir() for file in sorted(directory.iterdir())]
    return [file for file in files if file.name != _NAMES[owner]]


def _is_systemds(program: str) -> bool:
    return Path(program).resolve().name == "resolvectl"


async def _run(*arguments: str, given: str = "") -> str:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "resolvconf", *arguments, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(PATIENCE):
            said, _ = await process.communicate(given.encode())
    except TimeoutError:
        process.kill()
        raise OSError("resolvconf does not end") from None
    text = said.decode(errors="replace")
    if process.returncode:
        raise OSError(f"resolvconf {' '.join(arguments)} failed: {text.strip() or process.returncode}")
    return text
