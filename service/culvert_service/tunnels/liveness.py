"""Reads the gateways' counters, and closes tunnels that are idle or whose devices do not answer.

counters ─► Silence, one a gateway ─► closed: idle, or silent
                                        └► asked over Watch to open again
"""

from __future__ import annotations

import logging
import time
import uuid

from culvert_db import Database
from culvert_proto import CulvertError, Reason

from culvert_service.audit.log import CONTROLLER
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.link import Link
from culvert_service.tasks import Pace, Periodic
from culvert_service.tunnels import repository
from culvert_service.tunnels.closing import Closing
from culvert_service.tunnels.silence import Carried, Counts, Silence
from culvert_service.tunnels.traffic import Traffic
from culvert_service.watch.hub import GatewayMoved
from culvert_service.watch.pushes import Pushes

_log = logging.getLogger(__name__)

# Our tunables. Reading counters takes at most this share of the time, however many gateways there are.
_SHARE = 0.05
_EVERY_SECONDS = 1.0
# An SA's tunnel is read again after this long: its resource's idle time may have changed.
_KNOWN_SECONDS = 60.0


class Liveness:
    def __init__(self, database: Database, fleet: Fleet, pushes: Pushes, closing: Closing) -> None:
        self._database = database
        self._fleet = fleet
        self._pushes = pushes
        self._closing = closing
        self.traffic = Traffic()
        self._silence: dict[str, Silence] = {}
        self._known: dict[str, dict[int, Carried]] = {}
        self._known_until = 0.0
        self._not_before, self._pace = 0.0, Pace(1 / _SHARE)
        self._looks = Periodic("liveness", self._look_at_all, _EVERY_SECONDS)

    def start(self) -> None:
        self._looks.start()

    async def stop(self) -> None:
        await self._looks.stop()

    async def _look_at_all(self) -> None:
        began = time.monotonic()
        if began < self._not_before:
            return
        if began >= self._known_until:
            self._known.clear()
            self._known_until = began + _KNOWN_SECONDS
        online = [link for link in self._fleet if link.online]
        self.traffic.keep(link.name for link in online)
        for link in online:
            try:
                await self._look(link)
            except CulvertError:
                # The link logs the cause. Without counters no tunnel is judged idle or silent.
                self._silence.pop(link.name, None)
                self.traffic.forget(link.name)
            except Exception:
                _log.exception("cannot check the gateway's tunnels", extra={"gateway": link.name})
        ended = time.monotonic()
        self._not_before = ended + self._pace.rest_after(ended - began)

    async def _look(self, link: Link) -> None:
        opened, sealed = await link.read_hits("spd_in"), await link.read_hits("sad_out")
        counts, now = Counts(opened.packets, sealed.packets), time.monotonic()
        known = self._known.setdefault(link.name, {})
        listed = counts.heard.keys() | counts.sent.keys()
        if unknown := listed - known.keys():
            async with self._database() as session:
                known |= await repository.find_carried(session, link.config.id, unknown)
        found = self._silence.setdefault(link.name, Silence()).look(counts, known, now)
        tunnels = {sa: of.tunnel_id for sa, of in known.items()}
        self.traffic.look(link.name, opened.bytes, sealed.bytes, tunnels, now)
        by_tunnel: dict[uuid.UUID, list[Carried]] = {}
        for sa in listed & known.keys():
            by_tunnel.setdefault(known[sa].tunnel_id, []).append(known[sa])
        silent = CulvertError(Reason.PEER_SILENT, gateway=link.name)
        for tunnel_id in found.ask:
            device_id = by_tunnel[tunnel_id][0].device_id
            await self._pushes.tell_elsewhere(device_id, GatewayMoved(tunnel_id, silent))
        # A tunnel may have been opened again since; the generation tells.
        for why, tunnels in ((CulvertError(Reason.CLOSED_IDLE), found.idle), (silent, found.silent)):
            if tunnels:
                seen = {(it, sa.generation) for it in tunnels for sa in by_tunnel[it]}
                await self._closing.close(CONTROLLER, why, repository.is_at_generation(seen))
