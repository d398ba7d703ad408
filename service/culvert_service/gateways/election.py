"""One bid for a gateway: the epoch of its lease, and no other number.

finsy bids the highest id that a switch ever saw when nobody is primary, and again when a primary leaves: an owner that was
replaced would write once more. Here the lease alone raises the number.
"""

from __future__ import annotations

import finsy
from finsy.grpcutil import GRPCStatusCode
from finsy.p4arbitrator import Arbitrator
from finsy.p4client import P4RpcStatus
from finsy.proto import U128, p4r

from culvert_service.gateways.role import objects_of
from culvert_service.gateways.session import Program


class OneBid(Arbitrator):
    """`highest` is what stands in the way of a bid that failed: the least epoch that wins is one more."""

    def __init__(self, epoch: int, program: Program) -> None:
        super().__init__(epoch, program.role, objects_of(program.p4info) if program.role else None)
        self.highest: int | None = None

    async def handshake(self, switch: finsy.Switch, *, conflict: bool = False) -> None:
        answer = None
        if not conflict:
            await self._send(switch)
            answer = await self._receive(switch)
        if answer is None:
            # Another stream bids the same: ours of a moment ago, that the switch has not missed yet.
            self._lose(self.election_id)
            return
        highest = U128.decode(answer.election_id)
        won = P4RpcStatus.from_status(answer.status).code == GRPCStatusCode.OK
        if won and highest == self.election_id:
            self.primary_id, self.is_primary = highest, True
        else:
            self._lose(highest)

    async def update(self, switch: finsy.Switch, msg: p4r.MasterArbitrationUpdate) -> None:
        won = P4RpcStatus.from_status(msg.status).code == GRPCStatusCode.OK
        if self.is_primary and not won:
            self._lose(U128.decode(msg.election_id))
            switch._become_backup()

    def _lose(self, highest: int) -> None:
        self.primary_id, self.is_primary, self.highest = highest, False, highest
