"""Roaming: writes the peer endpoint that a gateway has authenticated to the database and to the gateway's entries.

 gateway ── moved_t, until acted on ──► Newest ── one at a time, at most once a second ──► entry modified, row updated

Only an authenticated packet moves a peer (RFC 4555 section 3.5). The gateway already sends to the new endpoint when it
reports it, so nothing here is urgent: many moves cost at most one write per second and SA.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial

from culvert_db import Database, doubted
from culvert_proto import CulvertError

from culvert_service.audit.log import CONTROLLER
from culvert_service.audit.transaction import begin_uncommitted
from culvert_service.gateways.entry import Kind, Update
from culvert_service.gateways.link import Link
from culvert_service.gateways.tunnel_entries import Path, pair_entries, same_sa
from culvert_service.tasks import Background
from culvert_service.tunnels import hot_queries, repository
from culvert_service.tunnels.programming import NoTurn, program_and_commit, repeat_in_turn
from culvert_service.tunnels.record import TunnelRecord

_log = logging.getLogger(__name__)

_SETTLE_SECONDS = 1.0
# The tables whose entries have an SA's peer: of the gateway's own engine, and of a crypto host.
_WITH_PEER = ("sad_out", "crypto_out")

# A gateway's id, and an outbound SA on it.
_Sa = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Peer:
    """The source of an SA's packets. Port 0: ESP without UDP."""

    address: str
    port: int


class Newest:
    """The last reported endpoint of each SA, and whether a task is writing it."""

    def __init__(self) -> None:
        self._heard: dict[_Sa, Peer | None] = {}

    def hear(self, sa: _Sa, peer: Peer) -> bool:
        """True when no task works on this SA: the caller has to start one."""
        idle = sa not in self._heard
        self._heard[sa] = peer
        return idle

    def take(self, sa: _Sa) -> Peer | None:
        """The endpoint reported since the last call; with None the task ends."""
        peer = self._heard.pop(sa, None)
        if peer is not None:
            self._heard[sa] = None
        return peer

    def give_up(self, sa: _Sa) -> None:
        self._heard.pop(sa, None)


class Roaming:
    """Writes reported moves."""

    def __init__(self, database: Database, background: Background) -> None:
        self._database = database
        self._background = background
        self._newest = Newest()

    def record_move(self, link: Link, sa_id: int, peer: Peer) -> None:
        """For a gateway's digest about an outbound SA."""
        if self._newest.hear((link.config.id, sa_id), peer):
            self._background.start(self._follow(link, sa_id))

    async def _follow(self, link: Link, sa_id: int) -> None:
        sa, carried = (link.config.id, sa_id), None
        try:
            while (peer := self._newest.take(sa)) is not None:
                if peer != carried:
                    await repeat_in_turn(partial(self._carry, link, sa_id, peer))
                    carried = peer
                await asyncio.sleep(_SETTLE_SECONDS)
        except CulvertError as error:
            # The gateway repeats the digest.
            _log.warning("a move is not recorded yet", extra={"gateway": link.name, "why": error.message})
        finally:
            self._newest.give_up(sa)

    async def _carry(self, link: Link, sa_id: int, peer: Peer) -> NoTurn | None:
        async with begin_uncommitted(self._database, CONTROLLER) as transaction:
            tunnel_id = await repository.find_id_by_sa(transaction.session, link.config.id, sa_id)
            record = await hot_queries.lock(transaction, tunnel_id) if tunnel_id else None
            if record is None or not _is_concerned(record, sa_id, peer):
                return None
            path = record.path.with_peer(peer.address, peer.port)
            changes = await _find_changes(link, record, path)
            if path == record.path and not changes:
                return None
            # Policies may depend on the device's address: the tunnel needs a new decision.
            await hot_queries.update_tunnel(
                transaction,
                record.id,
                peer_address=peer.address,
                peer_port=peer.port,
                policy_version=doubted(),
            )
            if none := await program_and_commit(transaction, link, [changes]):
                return none
        _log.info("tunnel moved", extra={"tunnel": str(record.id), "peer": peer.address, "port": peer.port})
        if path.inner_mtu != record.path.inner_mtu:
            link.reconcile_soon()
        return None


def _is_concerned(record: TunnelRecord, sa_id: int, peer: Peer) -> bool:
    """False when the tunnel was opened again since: a report about older SAs does not hold for newer ones."""
    tag = record.pairs[record.generations.current].tag
    speaks = any(pair.to_device.sa_id == sa_id and pair.tag == tag for pair in record.pairs.values())
    return speaks and record.faces(peer.address)


async def _find_changes(link: Link, record: TunnelRecord, path: Path) -> list[Update]:
    wanted = [item for pair in record.pairs.values() for item in pair_entries(path, pair)]
    seals = {item.key: item for item in wanted if item.table in _WITH_PEER}
    return [
        Update(Kind.MODIFY, seals[found.key].with_key_of(found), found)
        for found in await link.read_stored(list(seals.values()))
        if found != seals[found.key] and same_sa(found, seals[found.key])
    ]
