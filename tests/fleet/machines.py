"""Four Debians under their own systemd in the lab's network, as an organisation has them before it meets Culvert.

  laptop ─────────── internet (router) ─────────── office (router) ────────┬── gateway, one interface
  203.0.113.10        │ services (bridge)   198.51.100.2   10.20.0.254     │   10.20.0.1
                      ├── controller 192.0.2.10                            └── intranet, a web server
                      └── name server 192.0.2.53                               10.20.0.10

The office's router translates addresses, forwards UDP port 4500 and ESP to the gateway, and is the intranet's default
route. The name server is BIND 9 with the zone corp.example. The administrator's browser stands at the internet's router.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from culvert_lab import browser, intranet, netns
from culvert_lab import topology as net
from culvert_lab.lab import Lab
from culvert_lab.netns import NETNS_DIR
from culvert_lab.topology import Site
from debian import INSTALL, Debian, find_package, make_root_for
from releases import Release, make_root

from .power import Network
from .terminal import Terminal

PUBLIC_NAME = f"vpn.{net.ZONE}"
OFFICE = "culvert-office"
# The web server's second address.
NEWS_ADDRESS = "10.20.0.11"
_OFFICE_LAN = "10.20.0.254"
_OFFICE_NFT = f"""\
table ip office {{
  chain arriving {{
    type nat hook prerouting priority -100
    iifname "wan" udp dport {net.ESP_PORT} dnat to {net.GATEWAY_LAN_ADDRESS}
    iifname "wan" ip protocol esp dnat to {net.GATEWAY_LAN_ADDRESS}
  }}
  chain leaving {{
    type nat hook postrouting priority 100
    oifname "wan" masquerade
  }}
}}
"""
_PACKAGES = {
    Site.CONTROLLER: ("culvert-controller",),
    Site.GATEWAY: ("culvert-gateway",),
    Site.LAPTOP: ("culvert-client", "culvert-tray"),
    Site.DNS: (),
}
_NAME_SERVER = ("systemd-sysv", "dbus", "iproute2", "bind9", "bind9-utils")
# It asks no other name server and tells none of a change.
_NAMED_OPTIONS = """\
options {
    directory "/var/cache/bind";
    listen-on-v6 { none; };
    recursion no;
    dnssec-validation no;
    notify no;
};
"""
_ZONE = f"""\
$TTL 60
@    SOA  ns.{net.ZONE}. hostmaster.{net.ZONE}. 1 3600 600 86400 5
     NS   ns.{net.ZONE}.
ns   A    {net.DNS_ADDRESS}
vpn  A    {net.CONTROLLER_ADDRESS}
"""
_ZONE_FILE = f"/var/lib/bind/{net.ZONE}"
_NAMED_LOCAL = f'zone "{net.ZONE}" {{ type primary; file "{_ZONE_FILE}"; }};\n'
# Its own network and resolver, and else this computer's Chromium.
_BROWSER = """\
#!/bin/sh
exec nsenter --net={network} unshare --mount sh -c '
mount --make-rprivate /
mount --bind {resolver} "$(readlink -f /etc/resolv.conf)"
exec {chromium} "$@"' sh "$@"
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """`bare`: its files before any package of Culvert. `packages`: those that its folder has."""

    site: Site
    debian: Debian
    bare: dict[str, str]
    packages: list[Path]
    network: Network

    def switch_off(self, *, cleanly: bool = True) -> None:
        """As a person does, or as a power cut."""
        self.debian.switch_off(cleanly=cleanly)
        self.network.forget()

    def boot(self) -> None:
        self.debian.boot(str(NETNS_DIR / self.site.value))

    def type(self, command: str) -> Terminal:
        """A person types it as root, in the folder that has the packages."""
        return Terminal(self.debian.command("sh", "-c", f"cd /srv && {command}"))

    def read(self, path: str) -> bytes:
        return (self.debian.place / path.removeprefix("/")).read_bytes()

    def write(self, path: str, content: bytes) -> None:
        (self.debian.place / path.removeprefix("/")).write_bytes(content)

    def install(self, packages: Sequence[Path]) -> None:
        """With `apt install`, over what there is, of a newer or an older version."""
        folder = self.debian.place / "srv/packages"
        folder.mkdir()
        for package in packages:
            shutil.copyfile(package, folder / package.name)
        self.debian.run(*INSTALL, *(f"/srv/packages/{it.name}" for it in packages))
        shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class Fleet:
    lab: Lab
    machines: dict[Site, Machine]

    def __getitem__(self, site: Site) -> Machine:
        return self.machines[site]

    def make_browser(self, site: Site) -> Path:
        """A program that is Chromium at the site, asking the organisation's name server."""
        chromium = browser.chromium()
        assert chromium is not None
        resolver = self.lab.work / f"{site.short}-resolv.conf"
        resolver.write_text(_resolver())
        program = self.lab.work / f"{site.short}-chromium"
        program.write_text(
            _BROWSER.format(network=NETNS_DIR / site.value, resolver=resolver, chromium=chromium)
        )
        program.chmod(0o755)
        return program


@asynccontextmanager
async def raised(release: Release, work: Path) -> AsyncGenerator[Fleet]:
    """The machines run; no package of Culvert is installed, and all that those need of the release is."""
    packages = {site: [find_package(it, release) for it in names] for site, names in _PACKAGES.items()}
    every = [it for each in packages.values() for it in each]
    roots = {site: make_root_for(release, "fleet", every, ()) for site in packages}
    roots[Site.DNS] = make_root(release, "name-server", _NAME_SERVER)
    async with Lab(work) as lab:
        with ExitStack() as stack:
            netns.delete(OFFICE)
            stack.callback(netns.delete, OFFICE)
            _lay_wires()
            await intranet.start(lab)
            await intranet.start(lab, name="news", address=NEWS_ADDRESS)
            machines: dict[Site, Machine] = {}
            for site, files in packages.items():
                debian = stack.enter_context(Debian(release, roots[site]))
                names = f"echo {site.short} > /etc/hostname; echo '{_resolver()}' > /etc/resolv.conf"
                # The journal is there after a reboot.
                debian.prepare(f"{names}; mkdir -p /var/log/journal", *files)
                network = Network(site.value)
                debian.boot(str(NETNS_DIR / site.value))
                machines[site] = Machine(site, debian, debian.files(), files, network)
            _configure_name_server(machines[Site.DNS])
            yield Fleet(lab, machines)


def _resolver() -> str:
    return f"nameserver {net.DNS_ADDRESS}\n"


def _lay_wires() -> None:
    """The office's router between the internet and the two wires that led to the gateway in the lab."""
    gateway, intranet = Site.GATEWAY.value, Site.INTRANET.value
    netns.create(OFFICE)
    for command in (
        f"-n {gateway} link delete mgmt",
        f"-n {gateway} link set wan netns {OFFICE}",
        f"-n {gateway} link set lan netns {OFFICE} name intranet",
        f"-n {OFFICE} link add gateway type veth peer name eth0 netns {gateway}",
        f"-n {OFFICE} link add lan type bridge",
        *(f"-n {OFFICE} link set {it} master lan up" for it in ("intranet", "gateway")),
        *(f"-n {OFFICE} link set {it} up" for it in ("lan", "wan")),
        f"-n {OFFICE} address add {_OFFICE_LAN}/16 dev lan",
        f"-n {OFFICE} address add {net.GATEWAY_ADDRESS}/24 dev wan",
        f"-n {OFFICE} route add default via 198.51.100.1",
        f"-n {gateway} address add {net.GATEWAY_LAN_ADDRESS}/16 dev eth0",
        f"-n {gateway} link set eth0 up",
        f"-n {gateway} route add default via {_OFFICE_LAN}",
        f"-n {intranet} route replace default via {_OFFICE_LAN}",
        f"-n {intranet} address add {NEWS_ADDRESS}/16 dev eth0",
    ):
        subprocess.run(["ip", *command.split()], check=True)
    run_in_office("nft", "-f", "-", stdin=_OFFICE_NFT)
    run_in_office("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    for site in _PACKAGES:
        # A namespace inherits what this computer does, and these machines are no routers.
        still = "echo 0 > /proc/sys/net/ipv4/ip_forward"
        subprocess.run(["nsenter", f"--net={NETNS_DIR / site.value}", "sh", "-c", still], check=True)


def run_in_office(*command: str, stdin: str = "") -> None:
    """At the office's router."""
    enter = ["nsenter", f"--net={NETNS_DIR / OFFICE}"]
    subprocess.run([*enter, *command], check=True, input=stdin, text=True)


def _configure_name_server(machine: Machine) -> None:
    machine.write("/etc/bind/named.conf.options", _NAMED_OPTIONS.encode())
    machine.write("/etc/bind/named.conf.local", _NAMED_LOCAL.encode())
    machine.write(_ZONE_FILE, _ZONE.encode())
    machine.debian.run("chown", "bind", _ZONE_FILE)
    machine.debian.run("systemctl", "restart", "named")


def keep_logs(fleet: Fleet, folder: Path) -> None:
    """Each machine's journal, for a person who looks for a fault."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(fleet.lab.work / "logs", folder)
    for site, machine in fleet.machines.items():
        said = machine.debian.run("journalctl", "--no-pager", check=False)
        (folder / f"{site.short}.journal").write_text(said)
