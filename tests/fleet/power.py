"""A computer's kernel forgets its network when the power goes; a namespace does not. So it is made as it was at first."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from culvert_lab.netns import NETNS_DIR, Inside

_SETTINGS = ("net/ipv4", "net/ipv6")
_FORGOTTEN = """
nft flush ruleset
ip xfrm state flush 2>/dev/null || true
ip xfrm policy flush 2>/dev/null || true
for family in -4 -6; do
  ip $family rule flush
  ip $family rule add pref 32766 lookup main
  [ $family = -6 ] || ip $family rule add pref 32767 lookup default
  [ -n "$(ip $family rule show pref 0)" ] || ip $family rule add pref 0 lookup local
  for kind in unreachable blackhole prohibit; do ip $family route flush table all type $kind 2>/dev/null || true; done
done
"""


class Network:
    """The network of a namespace that nothing has changed yet: links, addresses, the default route, settings."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._inside = Inside(name)
        self._links = self._list_links()
        self._settings = self._inside.call(_read_settings)
        self._default = self._ip("-4", "route", "show", "default").split()
        self._shown = self._show()

    def forget(self) -> None:
        """Make it so again. Nothing of the computer runs."""
        for link in self._list_links() - self._links:
            # A pair's other end goes with it.
            subprocess.run(["ip", "-n", self._name, "link", "delete", link], check=False, capture_output=True)
        enter = ["nsenter", f"--net={NETNS_DIR / self._name}"]
        subprocess.run([*enter, "sh", "-ec", _FORGOTTEN], check=True)
        for link in sorted(self._links - {"lo"}):
            # Down, a link loses its routes.
            self._ip("link", "set", link, "down")
            self._ip("link", "set", link, "up")
        self._ip("-4", "route", "replace", *self._default)
        self._inside.call(_write_settings, self._settings)
        assert self._show() == self._shown

    def _list_links(self) -> set[str]:
        return {it["ifname"] for it in json.loads(self._ip("-j", "link"))}

    def _show(self) -> list[str]:
        asked = ("-br -4 address", "-4 route show table all", "-4 rule", "-6 rule")
        tables = subprocess.check_output(
            ["nsenter", f"--net={NETNS_DIR / self._name}", "nft", "list", "ruleset"], text=True
        )
        return [*(self._ip(*it.split()) for it in asked), tables]

    def _ip(self, *arguments: str) -> str:
        return subprocess.check_output(["ip", "-n", self._name, *arguments], text=True)


def _read_settings() -> dict[Path, str]:
    found: dict[Path, str] = {}
    for folder in _SETTINGS:
        for file in (Path("/proc/sys") / folder).rglob("*"):
            if file.is_file() and file.stat().st_mode & 0o600 == 0o600:
                try:
                    found[file] = file.read_text()
                except OSError:
                    continue  # it can be written alone
    return found


def _write_settings(before: dict[Path, str]) -> None:
    for file, value in _read_settings().items():
        if before.get(file, value) != value:
            file.write_text(before[file])
