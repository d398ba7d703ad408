"""Points the system's name service at the stub while the daemon runs, and restores it afterwards."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from culvert_proto import CulvertError

from culvert_client.config import Endpoint
from culvert_client.core.grant import Address
from culvert_client.platform.linux.system_dns.choice import name_servers
from culvert_client.platform.linux.system_dns.resolv_conf import Records
from culvert_client.platform.linux.system_dns.resolved import LINK
from culvert_client.platform.linux.system_dns.setup import SystemDns, clean_up

__all__ = ["SystemDns", "clean_up", "name_servers_on_disk", "own_devices", "system_dns"]

_RESOLV_CONFS = ("etc/resolv.conf", "run/systemd/resolve/resolv.conf", "run/NetworkManager/resolv.conf")


def system_dns(stub: Endpoint, state_dir: Path) -> SystemDns:
    """As NameServices."""
    return SystemDns(stub, state_dir)


def own_devices() -> Collection[str]:
    """As NameServices."""
    return {LINK}


def name_servers_on_disk(state_dir: Path, root: Path = Path("/")) -> Iterable[Address]:
    """As NameServices. `root`: the directory of /etc and /run.

    A killed daemon leaves its note of the replaced settings in `state_dir`.
    """
    texts: list[str] = []
    with suppress(CulvertError):
        record = Records(state_dir).look()
        texts.append((record and record.before.text) or "")
    for name in _RESOLV_CONFS:
        with suppress(OSError):
            texts.append((root / name).read_text(errors="replace"))
    for text in texts:
        for host in name_servers(text):
            with suppress(ValueError):
                yield ip_address(host)
