"""A whole client without a socket: a clock, and what it has asked for and not got yet."""

from __future__ import annotations

from typing import TypeVar

from culvert_client.core.client import Client
from culvert_client.core.client_events import (
    Applied,
    Apply,
    Call,
    CallEnded,
    Command,
    Event,
    Fail,
    ProfileReceived,
    QueryHeld,
    Reply,
    UpstreamAnswered,
)
from culvert_client.core.grant import Address
from culvert_client.core.profile import Profile
from culvert_client.core.status import status_of
from culvert_client.core.tunnel import events as on
from culvert_client.core.tunnel.events import QueryId
from culvert_proto import CulvertError, Reason, local_pb2

from .granted import PROFILE, WIKI, pair, tunnel

It = TypeVar("It")

EPOCH = 1_700_000_000.0


class World:
    """A client with a clock, and what it has asked for and not got yet."""

    def __init__(self, profile: Profile = PROFILE) -> None:
        self.client = Client(Profile())
        self.now = 0.0
        self.commands: list[Command] = []
        self.post(on.Tick())
        self.post(ProfileReceived(profile))
        self.settle_datapath()
        self.commands.clear()

    def post(self, event: Event) -> list[Command]:
        new = self.client.handle(event, self.now)
        self.commands += new
        return new

    def take(self, kind: type[It]) -> list[It]:
        found = [command for command in self.commands if isinstance(command, kind)]
        self.commands = [command for command in self.commands if not isinstance(command, kind)]
        return found

    def settle_datapath(self, error: CulvertError | None = None) -> None:
        for apply in self.take(Apply):
            self.post(Applied(apply.number, error))

    def ask(self, query: int, *addresses: Address, fqdn: str = WIKI) -> None:
        self.post(QueryHeld(QueryId(query), fqdn))
        self.post(UpstreamAnswered(QueryId(query), frozenset(addresses)))

    def open(self, fqdn: str = WIKI, **fields: float) -> None:
        [call] = self.take(Call)
        assert isinstance(call.command, on.OpenTunnel)
        opened = on.TunnelOpened(call.command.call, tunnel(fqdn=fqdn), pair(), asked_at=self.now, **fields)
        self.post(CallEnded(fqdn, opened))
        self.settle_datapath()

    def refuse(self, error: CulvertError, fqdn: str = WIKI) -> None:
        [call] = self.take(Call)
        self.post(CallEnded(fqdn, on.Failed(call.command.call, error)))

    def verdicts(self) -> dict[int, Reason | None]:
        return {it.query.number: None for it in self.take(Reply)} | {
            it.query.number: it.error.reason for it in self.take(Fail)
        }

    def status(self) -> local_pb2.Status:
        return status_of(
            self.client,
            controller="https://c",
            epoch=EPOCH,
            now=self.now,
            version="1",
            datapath="userspace",
            round_trips={"gw-berlin": 0.0123},
        )
