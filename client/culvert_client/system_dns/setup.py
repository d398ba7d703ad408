"""Points the system's name service at the stub, follows it while others change it, and undoes it.

start                     ─► undo what a crash left ─► choose ─► note on disk ─► change
stop, culvertd --cleanup  ─► undo ─► note dropped
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from culvert_client.config import DNS_PORT, Endpoint
from culvert_client.system_dns import network_manager, resolvconf, resolved
from culvert_client.system_dns.bus import names_on_bus
from culvert_client.system_dns.choice import Facts, Way, choose, upstreams
from culvert_client.system_dns.resolv_conf import Record, Records, ResolvConf

# Our tunables: seconds between two looks, and how often another program's file is replaced before it has its way.
LOOK_EVERY = 2.0
MOST_REPLACED = 10

_log = logging.getLogger("culvertd")


class SystemDns:
    """`root` is where /etc and /run are."""

    def __init__(self, stub: Endpoint, state_dir: Path, root: Path = Path("/")) -> None:
        self._stub, self._state_dir, self._root, self._run = stub, state_dir, root, root / "run"
        self._records = Records(state_dir)
        self._file = ResolvConf(root / "etc/resolv.conf")
        self._record: Record | None = None
        self._link: resolved.RoutedLink | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._routed: tuple[str, ...] = ()
        self._replaced = 0

    async def start(
        self, zones: Callable[[], tuple[str, ...]], found: Callable[[tuple[Endpoint, ...]], None]
    ) -> None:
        """`zones` gives the managed ones; `found` is told which name servers to forward to, now and when they change.

        Raises OSError, and has changed nothing then.
        """
        await clean_up(self._state_dir, self._root)
        facts = Facts(
            self._file.text(), self._file.target, await names_on_bus(), await resolvconf.installed()
        )
        way = choose(facts)
        if self._stub.port != DNS_PORT and way is not Way.RESOLVED:
            raise OSError(f"the stub must listen on port {DNS_PORT}: resolv.conf names no other")
        self._record = Record(way, self._file.look())
        self._records.keep(self._record)
        # Asked while nothing is changed yet.
        known = self.name_servers()
        found(known)
        try:
            await self._change(self._record, zones())
        except BaseException:
            await self.stop()
            raise
        self._keeping = asyncio.create_task(self._keep(zones, found, known))
        _log.info("names are asked through %s", way.value)

    async def _change(self, record: Record, zones: tuple[str, ...]) -> None:
        match record.way:
            case Way.RESOLVED:
                self._link = resolved.RoutedLink()
                await self._link.bring_up()
                await self._route(zones)
            case Way.RESOLVCONF | Way.OPENRESOLV:
                await resolvconf.add(record.way, self._stub.host)
            case Way.NETWORK_MANAGER:
                network_manager.leave_alone(self._run)
                await network_manager.reload()
                self._file.point_at(self._stub.host, record.before)
            case Way.FILE:
                self._file.point_at(self._stub.host, record.before)

    def name_servers(self) -> tuple[Endpoint, ...]:
        """Those that the network gave this computer, in order; as they are now."""
        assert self._record is not None
        way, before = self._record.way, self._record.before
        match way:
            case Way.RESOLVED:
                sources = [self._run / "systemd/resolve/resolv.conf"]
            case Way.NETWORK_MANAGER:
                sources = network_manager.sources(self._run)
            case Way.RESOLVCONF | Way.OPENRESOLV:
                sources = resolvconf.sources(way, self._run)
            case Way.FILE:
                sources = []
        found = upstreams(map(_text, sources), self._stub.host)
        return found or upstreams([self._file.text(before)], self._stub.host)

    async def _route(self, zones: tuple[str, ...]) -> None:
        if self._link is not None:
            await resolved.route(self._link.index, self._stub, zones)
            self._routed = zones

    async def _keep(
        self,
        zones: Callable[[], tuple[str, ...]],
        found: Callable[[tuple[Endpoint, ...]], None],
        known: tuple[Endpoint, ...],
    ) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                self._defend()
                # Between two networks there is none: the last ones are as good as any.
                if (now := self.name_servers()) and now != known:
                    known = now
                    found(now)
                if zones() != self._routed:
                    await self._route(zones())
            except OSError as error:
                _log.warning("the system's DNS: %s", error)

    def _defend(self) -> None:
        """A DHCP client wrote a file of its own: that is what was there before, and ours goes over it."""
        record = self._record
        if record is None or record.way not in (Way.FILE, Way.NETWORK_MANAGER) or not self._file.is_foreign():
            return
        if self._replaced == MOST_REPLACED:
            _log.warning("another program keeps writing resolv.conf; it is left alone now")
        self._replaced += 1
        if self._replaced <= MOST_REPLACED:
            self._record = Record(record.way, self._file.look())
            self._records.keep(self._record)
            self._file.point_at(self._stub.host, self._record.before)

    async def stop(self) -> None:
        """What could not be put back is noted on disk still, for `clean_up`."""
        if self._keeping is not None:
            self._keeping.cancel()
        if self._link is not None:
            self._link.close()
            self._link = None
        try:
            await clean_up(self._state_dir, self._root)
        except OSError as error:
            _log.error("the system's DNS could not be put back: %s", error)


async def clean_up(state_dir: Path, root: Path = Path("/")) -> None:
    """Put back what a daemon changed that does not run any more. A second call does nothing. Raises OSError."""
    records = Records(state_dir)
    record = records.read()
    if record is None:
        return
    match record.way:
        case Way.RESOLVED:
            pass
        case Way.RESOLVCONF | Way.OPENRESOLV:
            if await resolvconf.installed() is not None:
                await resolvconf.remove(record.way)
        case Way.NETWORK_MANAGER:
            ResolvConf(root / "etc/resolv.conf").put_back(record.before)
            network_manager.take_back(root / "run")
            try:
                await network_manager.reload()
            except OSError as error:
                # It reads its configuration again when it starts.
                _log.warning("NetworkManager: %s", error)
        case Way.FILE:
            ResolvConf(root / "etc/resolv.conf").put_back(record.before)
    records.drop()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
