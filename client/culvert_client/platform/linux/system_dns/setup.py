"""Points the system's name service at the stub, restores the settings after changes by others, and undoes them.

start                     ─► undo what a crash left ─► choose ─► note on disk ─► change
every two seconds         ─► changed by another program ─► choose ─► note on disk ─► change, as often as contest.py says
stop, culvertd --cleanup  ─► undo ─► note dropped
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from culvert_proto import CulvertError, Reason

from culvert_client import state_file
from culvert_client.config import DNS_PORT, Endpoint
from culvert_client.platform.linux.system_dns import resolvconf, resolved
from culvert_client.platform.linux.system_dns.bus import names_on_bus
from culvert_client.platform.linux.system_dns.choice import (
    RESOLVED_NAME,
    RESOLVED_STUBS,
    Facts,
    SettingsOwner,
    author,
    choose,
    name_servers,
    upstreams,
)
from culvert_client.platform.linux.system_dns.contest import Contest
from culvert_client.platform.linux.system_dns.resolv_conf import (
    Record,
    Records,
    ResolvConf,
    is_network_manager_silent,
    network_manager_sources,
    release_network_manager,
    reload_network_manager,
    silence_network_manager,
)

# Our tunables, in seconds: the interval of checks, and the time for which a failure may be a restarting service.
LOOK_EVERY = 2.0
STARTING = 6.0

_log = logging.getLogger("culvertd")


class SystemDns:
    """`root`: the directory of /etc and /run."""

    def __init__(self, stub: Endpoint, state_dir: Path, root: Path = Path("/")) -> None:
        self._stub, self._state_dir, self._root, self._run = stub, state_dir, root, root / "run"
        self.warnings: tuple[CulvertError, ...] = ()
        """The obstacles that keep names from coming to the stub, as long as they last."""
        self._records = Records(state_dir)
        self._file = ResolvConf(root / "etc/resolv.conf")
        self._record: Record | None = None
        self._link: resolved.RoutedLink | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._contest = Contest()
        self._rival = ""
        # The fault of an unreadable note, until name servers are known without it.
        self._forgotten: CulvertError | None = None
        self._failure: CulvertError | None = None
        self._fails_since = 0.0

    async def start(
        self,
        zones: Callable[[], tuple[str, ...]],
        found: Callable[[tuple[Endpoint, ...]], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """As the protocol SystemDns. Raises OSError and CulvertError, and then has changed nothing."""
        try:
            self._records.look()
        except CulvertError as error:
            self._forgotten = CulvertError(Reason.DNS_SERVERS_FORGOTTEN, **error.fields)
        await clean_up(self._state_dir, self._root)
        record = self._record = self._record_settings(choose(await self._facts()))
        # Read the servers before the first change.
        known = self.name_servers()
        found(known)
        try:
            await self._change(record, zones())
        except BaseException:
            await self.stop()
            raise
        self._keeping = asyncio.create_task(self._keep(zones, found, known, changed))
        _log.info("names are asked through %s", record.owner.value)

    async def _facts(self) -> Facts:
        return Facts(
            self._file.text(), self._file.target, await names_on_bus(), await resolvconf.find_installed()
        )

    def _record_settings(self, owner: SettingsOwner) -> Record:
        """Keep the present settings on disk before the first change. Raises OSError and CulvertError."""
        if self._stub.port != DNS_PORT and owner is not SettingsOwner.RESOLVED:
            raise OSError(f"the stub must listen on port {DNS_PORT}: resolv.conf names no other")
        record = Record(owner, self._file.look())
        # resolved's settings end with the process, so they need no note.
        if owner is not SettingsOwner.RESOLVED:
            self._records.keep(record)
        return record

    async def _change(self, record: Record, zones: tuple[str, ...]) -> None:
        """Apply the settings. A second call restores settings that another program has changed."""
        match record.owner:
            case SettingsOwner.RESOLVED:
                if self._link is None or not self._link.exists:
                    self._close_link()
                    self._link = resolved.RoutedLink()
                await self._link.bring_up()
                await resolved.route(self._link.index, self._stub, zones)
            case SettingsOwner.RESOLVCONF | SettingsOwner.OPENRESOLV:
                await resolvconf.add(record.owner, self._stub.host)
            case SettingsOwner.NETWORK_MANAGER:
                silence_network_manager(self._run)
                await reload_network_manager()
                self._file.point_at(self._stub.host, record.before)
            case SettingsOwner.FILE:
                self._file.point_at(self._stub.host, record.before)

    def name_servers(self) -> tuple[Endpoint, ...]:
        """The network's present name servers, in order."""
        assert self._record is not None
        owner, before = self._record.owner, self._record.before
        match owner:
            case SettingsOwner.RESOLVED:
                sources = [resolved.uplinks(self._run)]
            case SettingsOwner.NETWORK_MANAGER:
                sources = network_manager_sources(self._run)
            case SettingsOwner.RESOLVCONF | SettingsOwner.OPENRESOLV:
                sources = resolvconf.sources(owner, self._run)
            case SettingsOwner.FILE:
                # If resolved runs, it forwards to the servers in our file, the stub: use its own servers instead.
                sources = [resolved.uplinks(self._run)] if self._leads_to_resolved() else []
        found = upstreams(map(_text, sources), self._stub.host)
        return found or upstreams([self._file.text(before)], self._stub.host)

    async def _keep(
        self,
        zones: Callable[[], tuple[str, ...]],
        found: Callable[[tuple[Endpoint, ...]], None],
        known: tuple[Endpoint, ...],
        changed: Callable[[], None],
    ) -> None:
        routed = zones()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                routed = await self._look(routed, zones())
            except OSError as error:
                self._fails(CulvertError(Reason.DNS_SETTINGS_FAILED, why=state_file.why(error)))
            except CulvertError as error:
                self._fails(error)
            # Without a network there are no servers: keep the last ones.
            if (now := self.name_servers()) and now != known:
                known = now
                found(now)
            if now:
                self._forgotten = None
            if self._tell():
                changed()

    async def _look(self, routed: tuple[str, ...], zones: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the zones that resolved knows now. Raises OSError and CulvertError."""
        assert self._record is not None
        now = asyncio.get_running_loop().time()
        if not await self._is_undone(routed):
            self._contest.stand(now)
            self._failure = None
            if routed != zones and self._record.owner is SettingsOwner.RESOLVED:
                await self._change(self._record, zones)
            return zones
        self._rival = self._place()
        if not self._contest.may_put_back(now):
            return routed
        _log.info("another program has changed the system's DNS: %s. It is put back.", self._rival)
        await self._put_back(zones)
        self._contest.put_back()
        self._failure = None
        return zones

    async def _is_undone(self, zones: tuple[str, ...]) -> bool:
        """Whether queries bypass the stub. Raises OSError."""
        assert self._record is not None
        servers = name_servers(self._file.text())
        match self._record.owner:
            case SettingsOwner.RESOLVED:
                if not RESOLVED_STUBS.issuperset(servers) or self._link is None or not self._link.exists:
                    return True
                return not await resolved.is_routed(self._link.index, self._stub, zones)
            case SettingsOwner.RESOLVCONF | SettingsOwner.OPENRESOLV:
                return servers[:1] != [self._stub.host]
            case SettingsOwner.NETWORK_MANAGER:
                return servers != [self._stub.host] or not is_network_manager_silent(self._run)
            case SettingsOwner.FILE:
                return servers != [self._stub.host] or await self._is_resolved_back()

    async def _is_resolved_back(self) -> bool:
        """Whether systemd-resolved, which was stopped when its file was replaced, runs again."""
        return self._leads_to_resolved() and RESOLVED_NAME in await names_on_bus()

    def _leads_to_resolved(self) -> bool:
        assert self._record is not None
        servers = name_servers(self._file.text(self._record.before))
        return bool(servers) and RESOLVED_STUBS.issuperset(servers)

    async def _put_back(self, zones: tuple[str, ...]) -> None:
        """Restore the settings. Another program's file becomes the former one, and its author may be in control now."""
        assert self._record is not None
        before = self._record.owner
        if before is SettingsOwner.FILE and not self._file.is_foreign() and await self._is_resolved_back():
            await clean_up(self._state_dir, self._root)
        servers = name_servers(self._file.text())
        # A restarting resolved is not on the bus yet.
        kept = before is SettingsOwner.RESOLVED and RESOLVED_STUBS.issuperset(servers)
        owner = choose(await self._facts()) if self._file.is_foreign() and not kept else before
        if owner is not before:
            self._close_link()
            await clean_up(self._state_dir, self._root)
            _log.info("names are asked through %s from now on", owner.value)
        if owner is not before or self._file.is_foreign():
            self._record = self._record_settings(owner)
        await self._change(self._record, zones)

    def _fails(self, error: CulvertError) -> None:
        """Keep the error until the settings are found unchanged, or are restored."""
        if self._failure is None:
            self._fails_since = asyncio.get_running_loop().time()
        self._failure = error

    def _tell(self) -> bool:
        """Update the warnings. True if they have changed."""
        warnings: tuple[CulvertError, ...] = ()
        if self._failure is not None:
            if asyncio.get_running_loop().time() - self._fails_since >= STARTING:
                warnings = (self._failure,)
        elif self._contest.is_fought:
            warnings = (CulvertError(Reason.DNS_SETTINGS_CONTESTED, what=self._rival),)
        elif self._forgotten is not None:
            warnings = (self._forgotten,)
        if list(map(str, warnings)) == list(map(str, self.warnings)):
            return False
        for warning in warnings or ["names come to culvertd again"]:
            _log.warning("the system's DNS: %s", warning)
        self.warnings = warnings
        return True

    def _place(self) -> str:
        """The settings' file, and the program that changed them, if the file names it."""
        assert self._record is not None
        text, target = self._file.text(), self._file.target
        by = author(Facts(text, target))
        if self._record.owner is SettingsOwner.RESOLVED and RESOLVED_STUBS.issuperset(name_servers(text)):
            return f"{resolved.LINK} (systemd-resolved)"
        return f"/etc/resolv.conf ({by})" if by else "/etc/resolv.conf"

    def _close_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    async def stop(self) -> None:
        """Restore the settings. Raises OSError; what it could not restore is still noted on disk, for `clean_up`."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        self._close_link()
        await clean_up(self._state_dir, self._root)


async def clean_up(state_dir: Path, root: Path = Path("/")) -> None:
    """Undo the changes of an ended daemon. A second call does nothing. Raises OSError."""
    records = Records(state_dir)
    record = records.read()
    if record is None:
        return
    match record.owner:
        case SettingsOwner.RESOLVED:
            pass
        case SettingsOwner.RESOLVCONF | SettingsOwner.OPENRESOLV:
            if await resolvconf.find_installed() is not None:
                await resolvconf.remove(record.owner)
        case SettingsOwner.NETWORK_MANAGER:
            ResolvConf(root / "etc/resolv.conf").put_back(record.before)
            release_network_manager(root / "run")
            try:
                await reload_network_manager()
            except OSError as error:
                # Ignored: NetworkManager reads its configuration when it starts.
                _log.warning("NetworkManager: %s", error)
        case SettingsOwner.FILE:
            ResolvConf(root / "etc/resolv.conf").put_back(record.before)
    records.drop()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
