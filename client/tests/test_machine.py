"""The life of one tunnel: single paths by example, every order of events by a stateful property."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from culvert_client.core.grant import SaPair, TunnelId, Usage
from culvert_client.core.tunnel import events as on
from culvert_client.core.tunnel.machine import TABLE, IllegalEventError, Machine
from culvert_client.core.tunnel.machines import list_held
from culvert_client.core.tunnel.states import (
    Activating,
    Closed,
    Closing,
    Draining,
    Installing,
    Moving,
    Opening,
    Renewing,
    State,
    Switching,
    Up,
)
from culvert_proto import CulvertError, Reason
from culvert_proto.sa import Limits
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from .granted import pair, tunnel

UNREACHABLE = CulvertError(Reason.CONTROLLER_UNREACHABLE, controller="c")

T1 = TunnelId("t1")


def queries(*numbers: int) -> frozenset[on.Demander]:
    return frozenset(map(on.QueryId, numbers))


def up(idle: float = 0.0, first: SaPair | None = None) -> Machine:
    machine = Machine(itertools.count(1))
    [opening] = machine.handle(on.Demand(on.QueryId(1)), 0.0)
    assert isinstance(opening, on.OpenTunnel)
    [install] = machine.handle(on.TunnelOpened(opening.call, tunnel(idle=idle), first or pair()), 0.1)
    assert isinstance(install, on.Install)
    assert machine.handle(on.Installed(install.call), 0.2) == [on.Release(queries(1))]
    return machine


def call_of(commands: list[on.Command]) -> int:
    [command] = commands
    assert not isinstance(command, on.Release | on.Refuse)
    return command.call


def test_demands_for_one_tunnel_open_it_once_and_are_released_together() -> None:
    machine = Machine(itertools.count(1))
    call = call_of(machine.handle(on.Demand(on.QueryId(1)), 0.0))
    assert machine.handle(on.Demand(on.QueryId(2)), 0.1) == []
    install = call_of(machine.handle(on.TunnelOpened(call, tunnel(), pair()), 0.2))
    assert machine.handle(on.Demand(on.QueryId(3)), 0.3) == []
    assert machine.handle(on.Installed(install), 0.4) == [on.Release(queries(1, 2, 3))]
    assert machine.handle(on.Demand(on.QueryId(4)), 0.5) == [on.Release(queries(4))]


def test_a_refusal_reaches_every_demand_and_the_next_demand_asks_again() -> None:
    machine = Machine(itertools.count(1))
    call = call_of(machine.handle(on.Demand(on.QueryId(1)), 0.0))
    machine.handle(on.Demand(on.QueryId(2)), 0.0)
    error = CulvertError(Reason.NO_POLICY, user="alice", name="git", owner="bob")
    assert machine.handle(on.Failed(call, error), 0.1) == [on.Refuse(queries(1, 2), error)]
    assert machine.state == Closed()
    assert isinstance(machine.handle(on.Demand(on.QueryId(3)), 0.2)[0], on.OpenTunnel)


def test_keys_that_cannot_be_installed_are_given_back() -> None:
    machine = Machine(itertools.count(1))
    call = call_of(machine.handle(on.Demand(on.QueryId(1)), 0.0))
    install = call_of(machine.handle(on.TunnelOpened(call, tunnel(), pair()), 0.1))
    error = CulvertError(Reason.DATAPATH_FAILED, why="no interface")
    close, refuse = machine.handle(on.Failed(install, error), 0.2)
    assert isinstance(close, on.CloseTunnel)
    assert refuse == on.Refuse(queries(1), error)
    assert machine.desired() is None


def test_renewal_makes_before_it_breaks() -> None:
    machine = up(first=pair(1, drain=2.0))
    renew = machine.handle(on.SoftLimit(T1, 1), 5.0)
    assert isinstance(renew[0], on.RenewSa)
    assert renew[0].generation == 1
    install = call_of(machine.handle(on.Renewed(call_of(renew), pair(2, drain=2.0)), 5.1))
    both = machine.desired()
    assert both is not None
    assert [sa.spi for sa in both.inbound] == [pair(1).inbound.spi, pair(2).inbound.spi]
    assert both.outbound.spi == pair(2).outbound.spi
    activate = machine.handle(on.Installed(install), 5.2)
    assert isinstance(activate[0], on.ActivateSa)
    assert activate[0].generation == 2
    assert machine.handle(on.Activated(call_of(activate)), 5.3) == []
    assert machine.deadline() == pytest.approx(7.3)
    assert machine.handle(on.Tick(), 7.2) == []
    assert isinstance(machine.state, Draining)
    machine.handle(on.Tick(), 7.3)
    assert isinstance(machine.state, Up)
    last = machine.desired()
    assert last is not None
    assert [sa.spi for sa in last.inbound] == [pair(2).inbound.spi]


def test_packets_are_counted_against_the_hard_limit_from_the_pair_in_use() -> None:
    hard = Limits(packets=100)
    machine = up(first=pair(1, hard=hard))
    machine.handle(on.Counted(Usage(packets_in=99)), 1.0)
    renew = call_of(machine.handle(on.SoftLimit(T1, 1), 1.0))
    install = call_of(machine.handle(on.Renewed(renew, pair(2, hard=hard)), 1.0))
    machine.handle(on.Activated(call_of(machine.handle(on.Installed(install), 1.0))), 1.0)
    assert machine.handle(on.Counted(Usage(packets_in=198)), 10.0) == []
    assert isinstance(machine.handle(on.Counted(Usage(packets_in=199)), 11.0)[0], on.CloseTunnel)


def test_a_failed_renewal_backs_off_and_retries_once_the_controller_is_up() -> None:
    machine = up(first=pair(1, soft=Limits(seconds=60)))
    commands = machine.handle(on.Tick(), 60.2)
    waits: list[float] = []
    now = 60.2
    for _ in range(8):
        assert machine.handle(on.Failed(call_of(commands), UNREACHABLE), now) == []
        assert machine.is_up
        deadline = machine.deadline()
        assert deadline is not None
        waits.append(deadline - now)
        now = deadline
        commands = machine.handle(on.Tick(), now)
    assert waits == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 30])
    machine.handle(on.Failed(call_of(commands), UNREACHABLE), now)
    assert isinstance(machine.handle(on.ControllerBack(), now + 0.01)[0], on.RenewSa)


def test_a_pair_past_its_hard_limit_is_not_used_any_more() -> None:
    machine = up(first=pair(1, soft=Limits(seconds=10), hard=Limits(seconds=20)))
    machine.handle(on.Failed(call_of(machine.handle(on.Tick(), 10.2)), UNREACHABLE), 10.3)
    machine.handle(on.Tick(), 20.1)
    assert isinstance(machine.state, Closing)
    assert machine.desired() is None


def test_a_limit_that_comes_during_the_drain_is_not_forgotten() -> None:
    machine = up()
    install = call_of(
        machine.handle(on.Renewed(call_of(machine.handle(on.SoftLimit(T1, 1), 1.0)), pair(2)), 1.0)
    )
    machine.handle(on.Activated(call_of(machine.handle(on.Installed(install), 1.0))), 1.0)
    assert machine.handle(on.SoftLimit(T1, 2), 1.1) == []
    renew = machine.handle(on.Tick(), 2.1)
    assert isinstance(renew[0], on.RenewSa)
    assert renew[0].generation == 2


def test_an_idle_tunnel_closes_and_a_used_one_does_not() -> None:
    machine = up(idle=60.0)
    machine.handle(on.Counted(Usage(packets_out=1)), 50.0)
    assert machine.handle(on.Tick(), 60.5) == []
    machine.handle(on.Counted(Usage(packets_out=1)), 70.0)
    [close] = machine.handle(on.Tick(), 110.0)
    assert isinstance(close, on.CloseTunnel)
    assert close.reason is Reason.CLOSED_IDLE
    assert machine.handle(on.CloseDone(close.call), 110.1) == []
    assert machine.state == Closed()


def test_a_name_that_is_asked_for_is_not_idle() -> None:
    machine = up(idle=60.0)
    assert machine.handle(on.Demand(on.QueryId(2)), 60.0) == [on.Release(queries(2))]
    assert machine.handle(on.Tick(), 119.0) == []
    assert isinstance(machine.handle(on.Tick(), 120.5)[0], on.CloseTunnel)


def test_a_demand_while_closing_opens_again_after_the_close() -> None:
    machine = up()
    close = call_of(machine.handle(on.CloseRequested(Reason.CLOSED_BY_USER), 1.0))
    assert machine.handle(on.Demand(on.QueryId(2)), 1.1) == []
    reopened = machine.handle(on.CloseDone(close), 1.2)
    assert isinstance(reopened[0], on.OpenTunnel)
    assert machine.state == Opening(call_of(reopened), queries(2))


def test_a_close_that_fails_is_tried_until_the_controller_knows() -> None:
    machine = up()
    call = call_of(machine.handle(on.CloseRequested(Reason.CLOSED_BY_USER), 1.0))
    machine.handle(on.Failed(call, UNREACHABLE), 1.1)
    assert machine.desired() is None
    again = machine.handle(on.ControllerBack(), 2.0)
    assert isinstance(again[0], on.CloseTunnel)
    machine.handle(on.Failed(call_of(again), CulvertError(Reason.TUNNEL_UNKNOWN)), 2.1)
    assert machine.state == Closed()


def test_a_name_closed_while_it_opens_does_not_stay_open() -> None:
    machine = Machine(itertools.count(1))
    call = call_of(machine.handle(on.Demand(on.QueryId(1)), 0.0))
    [refuse] = machine.handle(on.CloseRequested(Reason.CLOSED_BY_USER), 0.1)
    assert isinstance(refuse, on.Refuse)
    assert isinstance(machine.handle(on.TunnelOpened(call, tunnel(), pair()), 0.2)[0], on.CloseTunnel)
    assert machine.desired() is None


def test_a_tunnel_closed_before_its_answer_came_is_not_installed() -> None:
    machine = Machine(itertools.count(1))
    call = call_of(machine.handle(on.Demand(on.QueryId(1)), 0.0))
    lost = CulvertError(Reason.CLOSED_BY_ADMIN, why="revoked")
    machine.handle(on.ClosedByController(TunnelId("t1"), lost), 0.1)
    assert machine.handle(on.TunnelOpened(call, tunnel(), pair()), 0.2) == [on.Refuse(queries(1), lost)]
    assert machine.desired() is None


def test_a_loss_of_another_tunnel_changes_nothing() -> None:
    machine = up()
    assert (
        machine.handle(on.ClosedByController(TunnelId("t9"), CulvertError(Reason.TUNNEL_UNKNOWN)), 1.0) == []
    )
    assert machine.is_up


def test_a_loss_of_earlier_keys_changes_nothing() -> None:
    lost = on.ClosedByController(
        TunnelId("t1"), CulvertError(Reason.SA_LOST, gateway="gw"), last_generation=1
    )
    machine = Machine(itertools.count(1))
    call = call_of(machine.handle(on.Demand(on.QueryId(1)), 0.0))
    installing = call_of(machine.handle(on.TunnelOpened(call, tunnel(), pair(2)), 0.1))
    machine.handle(on.Installed(installing), 0.2)
    assert machine.handle(lost, 1.0) == []
    moving = call_of(machine.handle(on.GatewayMoved(TunnelId("t1")), 2.0))
    assert machine.handle(lost, 2.1) == []
    assert machine.desired() is not None
    machine.handle(on.Failed(moving, CulvertError(Reason.NO_POLICY, user="a", name="w", owner="b")), 2.2)
    machine.handle(on.CloseRequested(Reason.CLOSED_BY_USER), 3.0)
    # The controller still has the tunnel: the answer to the call ends it here.
    assert machine.handle(lost, 3.1) == []
    assert isinstance(machine.state, Closing)


@pytest.mark.parametrize("reason", [Reason.TUNNEL_UNKNOWN, Reason.SA_LOST])
def test_a_renewal_of_what_the_controller_has_lost_ends_the_tunnel(reason: Reason) -> None:
    machine = up()
    renew = call_of(machine.handle(on.SoftLimit(T1, 1), 1.0))
    error = CulvertError(reason, gateway="gw")
    machine.handle(on.Failed(renew, error), 1.1)
    assert machine.state == Closed()


def test_an_old_generation_sent_again_is_not_taken_for_a_new_one() -> None:
    machine = up()
    renew = call_of(machine.handle(on.SoftLimit(T1, 1), 1.0))
    machine.handle(on.Renewed(renew, pair(1)), 1.1)
    assert isinstance(machine.state, Renewing)


def test_late_answers_are_dropped_and_impossible_events_are_faults() -> None:
    machine = up()
    renew = call_of(machine.handle(on.SoftLimit(T1, 1), 1.0))
    machine.handle(on.CloseRequested(Reason.CLOSED_BY_USER), 1.1)
    assert machine.handle(on.Renewed(renew, pair(2)), 1.2) == []
    waiting = Machine(itertools.count(1))
    call = call_of(waiting.handle(on.Demand(on.QueryId(1)), 0.0))
    with pytest.raises(IllegalEventError):
        waiting.handle(on.Activated(call), 0.1)


def test_a_tunnel_whose_gateway_goes_stays_until_the_next_one_has_answered() -> None:
    machine = up()
    [asked] = machine.handle(on.GatewayMoved(TunnelId("t1")), 1.0)
    assert isinstance(asked, on.OpenTunnel)
    assert machine.handle(on.GatewayMoved(TunnelId("t1")), 1.1) == []
    there = machine.desired()
    assert there is not None
    assert there.tunnel.tunnel_id == "t1"
    # A query that comes now is answered when the new tunnel is installed.
    assert machine.handle(on.Demand(on.QueryId(2)), 1.2) == []
    install = call_of(machine.handle(on.TunnelOpened(asked.call, tunnel("t2"), pair()), 1.3))
    assert machine.handle(on.Installed(install), 1.4) == [on.Release(queries(2))]
    moved = machine.desired()
    assert moved is not None
    assert moved.tunnel.tunnel_id == "t2"


def test_a_refused_move_keeps_the_tunnel_a_failed_one_is_retried() -> None:
    machine = up()
    call = call_of(machine.handle(on.GatewayMoved(TunnelId("t1")), 1.0))
    assert machine.handle(on.Failed(call, CulvertError(Reason.GATEWAY_DOWN, gateway="gw")), 1.1) == []
    assert isinstance(machine.state, Up)
    call = call_of(machine.handle(on.GatewayMoved(TunnelId("t1")), 2.0))
    machine.handle(on.Failed(call, UNREACHABLE), 2.1)
    assert machine.deadline() == pytest.approx(2.6)
    again = machine.handle(on.Tick(), 2.6)
    assert isinstance(again[0], on.OpenTunnel)
    assert isinstance(machine.state, Moving)


def test_a_tunnel_closed_while_it_moves_is_closed_at_both_gateways() -> None:
    machine = up()
    call = call_of(machine.handle(on.GatewayMoved(TunnelId("t1")), 1.0))
    assert machine.handle(on.CloseRequested(Reason.CLOSED_BY_USER), 1.1) == []
    [close] = machine.handle(on.TunnelOpened(call, tunnel("t2"), pair()), 1.2)
    assert isinstance(close, on.CloseTunnel)
    assert close.tunnel_id == "t2"


def test_a_tunnel_closed_in_a_failed_move_is_closed_at_its_gateway() -> None:
    """Otherwise the controller keeps its keys until it is idle (wgtunnel/android issue 1407)."""
    machine = up()
    call = call_of(machine.handle(on.GatewayMoved(TunnelId("t1")), 1.0))
    machine.handle(on.CloseRequested(Reason.CLOSED_BY_USER), 1.1)
    assert list_held({"git": machine}) == {"git": "t1"}
    [close] = machine.handle(on.Failed(call, UNREACHABLE), 1.2)
    assert isinstance(close, on.CloseTunnel)
    assert close == on.CloseTunnel(close.call, TunnelId("t1"), Reason.CLOSED_BY_USER)


def test_a_tunnel_that_moves_survives_the_loss_of_another() -> None:
    """One peer's end must not end the others' connections (firezone/firezone pull request 14258)."""
    machine = up()
    call = call_of(machine.handle(on.GatewayMoved(TunnelId("t1")), 1.0))
    assert machine.handle(on.ClosedByController(TunnelId("t9"), UNREACHABLE), 1.1) == []
    assert machine.is_up
    assert machine.desired() is not None
    machine.handle(on.Failed(call, UNREACHABLE), 1.2)
    assert machine.is_up


def test_a_tunnel_lost_before_its_move_is_answered_stays_closed() -> None:
    machine = up()
    call = call_of(machine.handle(on.GatewayMoved(TunnelId("t1")), 1.0))
    machine.handle(on.ClosedByController(TunnelId("t2"), UNREACHABLE), 1.1)
    machine.handle(on.Demand(on.QueryId(2)), 1.2)
    opened = on.TunnelOpened(call, tunnel("t2"), pair())
    assert machine.handle(opened, 1.3) == [on.Refuse(queries(2), UNREACHABLE)]
    assert machine.state == Closed()


def test_a_message_about_another_tunnel_moves_nothing() -> None:
    machine = up()
    assert machine.handle(on.GatewayMoved(TunnelId("t9")), 1.0) == []
    assert isinstance(machine.state, Up)


def test_keys_stand_in_no_representation() -> None:
    machine = up(first=replace(pair(), inbound=replace(pair().inbound, key=b"TOPSECRET" * 4)))
    assert "TOPSECRET" not in repr(machine.state) + repr(machine.desired())


CAUSES = [
    UNREACHABLE,
    CulvertError(Reason.TIMEOUT, what="it"),
    CulvertError(Reason.INTERNAL),
    CulvertError(Reason.TUNNEL_UNKNOWN),
    CulvertError(Reason.GENERATION_STALE, current=2, asked=1),
    CulvertError(Reason.CODE_NEEDED),
]


class AnyOrder(RuleBasedStateMachine):
    """A controller and a datapath that answer in any order, late or never, with any error."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(itertools.count(1))
        self.now = 0.0
        self.asked: list[on.OpenTunnel | on.RenewSa | on.ActivateSa | on.CloseTunnel | on.Install] = []
        self.demanded: set[on.Demander] = set()
        self.settled: list[on.Demander] = []
        self.usage = Usage()
        self.opened = 0

    def post(self, event: on.Event) -> None:
        for command in self.machine.handle(event, self.now):
            match command:
                case on.Release(answered):
                    assert self.machine.is_up
                    self.settled += answered
                case on.Refuse(answered):
                    self.settled += answered
                case _:
                    self.asked.append(command)

    @rule(wait=st.floats(0, 40))
    def time_passes(self, wait: float) -> None:
        self.now += wait
        self.post(on.Tick())

    @rule()
    def demand(self) -> None:
        query = on.QueryId(len(self.demanded) + 1)
        self.demanded.add(query)
        self.post(on.Demand(query))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), soft=st.integers(0, 50))
    def succeed(self, data: st.DataObject, soft: int) -> None:
        command = self.asked.pop(data.draw(st.integers(0, len(self.asked) - 1)))
        match command:
            case on.OpenTunnel(call):
                self.opened += 1
                first = pair(1, Limits(seconds=soft), Limits(packets=8 * soft))
                self.post(on.TunnelOpened(call, tunnel(f"t{self.opened}", idle=60.0), first))
            case on.Install(call):
                self.post(on.Installed(call))
            case on.RenewSa(call, _, generation):
                self.post(on.Renewed(call, pair(generation + 1, hard=Limits(packets=8 * soft))))
            case on.ActivateSa(call):
                self.post(on.Activated(call))
            case on.CloseTunnel(call):
                self.post(on.CloseDone(call))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), error=st.sampled_from(CAUSES))
    def fail(self, data: st.DataObject, error: CulvertError) -> None:
        command = self.asked.pop(data.draw(st.integers(0, len(self.asked) - 1)))
        self.post(on.Failed(command.call, error))

    @rule(more=st.integers(0, 60))
    def count(self, more: int) -> None:
        self.usage = replace(self.usage, packets_in=self.usage.packets_in + more)
        self.post(on.Counted(self.usage))

    @rule(generation=st.integers(0, 4))
    def soft_limit(self, generation: int) -> None:
        self.post(on.SoftLimit(TunnelId(f"t{self.opened}"), generation))

    @rule()
    def close(self) -> None:
        self.post(on.CloseRequested(Reason.CLOSED_BY_USER))

    @rule(back=st.integers(0, 1))
    def lose(self, back: int) -> None:
        lost = TunnelId(f"t{self.opened - back}")
        self.post(on.ClosedByController(lost, CulvertError(Reason.SA_LOST, gateway="gw")))

    @rule(back=st.integers(0, 1))
    def move(self, back: int) -> None:
        self.post(on.GatewayMoved(TunnelId(f"t{self.opened - back}")))

    @rule()
    def controller_back(self) -> None:
        self.post(on.ControllerBack())

    @invariant()
    def each_demand_is_settled_at_most_once(self) -> None:
        assert len(self.settled) == len(set(self.settled))
        waiting = getattr(self.machine.state, "waiting", frozenset[on.Demander]())
        assert self.demanded == set(self.settled) | waiting

    @invariant()
    def an_up_tunnel_always_has_its_keys(self) -> None:
        desired = self.machine.desired()
        if self.machine.is_up:
            assert desired is not None
            assert desired.inbound
            carried = self.machine.carried
            assert carried is not None
            assert carried.pair.inbound in desired.inbound
        if desired is not None:
            assert len({sa.spi for sa in desired.inbound}) == len(desired.inbound)

    @invariant()
    def nothing_is_due_for_ever(self) -> None:
        deadline = self.machine.deadline()
        if deadline is not None and deadline <= self.now:
            self.post(on.Tick())
            later = self.machine.deadline()
            assert later is None or later > self.now

    @invariant()
    def something_moves_it_on(self) -> None:
        call = getattr(self.machine.state, "call", None)
        stuck = call is not None and all(command.call != call for command in self.asked)
        assert not stuck


@pytest.mark.slow
def test_the_table_says_exactly_where_each_event_leads() -> None:
    """A long walk with a fixed seed takes every transition of the table, and no other."""
    walk, declared = Random(1), {  # noqa: S311  no secret
        (state, event, target)
        for row in TABLE
        for state in row.states
        for event in row.events
        for target in row.leads_to
    }  # fmt: skip
    seen: set[tuple[type[State], type[on.Event], type[State]]] = set()
    machine, now, opened = Machine(itertools.count(1)), 0.0, 0
    for query in range(40_000):
        state, call = machine.state, getattr(machine.state, "call", None) or 0
        carried = machine.carried
        generation = carried.pair.generation if carried is not None else 1
        counted = (carried.usage.packets_in if carried is not None else 0) + walk.choice([0, 1, 100])
        last = TunnelId(f"t{opened - walk.choice([0, 0, 1, -1])}")
        first = pair(1, soft=Limits(seconds=20), hard=Limits(packets=100))
        answers: dict[type[State], on.Event] = {
            Opening: on.TunnelOpened(call, tunnel(f"t{opened + 1}", idle=60.0), first),
            Moving: on.TunnelOpened(call, tunnel(f"t{opened + 1}", idle=60.0), first),
            Installing: on.Installed(call),
            Renewing: on.Renewed(call, pair(generation + 1, hard=Limits(packets=100))),
            Switching: on.Installed(call),
            Activating: on.Activated(call),
            Closing: on.CloseDone(call),
        }
        awaited = [*[answers.get(type(state), on.Tick())] * 3, on.Failed(call, walk.choice(CAUSES))]
        others: list[on.Event] = [
            on.Demand(on.QueryId(query)),
            on.SoftLimit(last, generation),
            on.Counted(Usage(packets_in=counted)),
            on.GatewayMoved(last),
            on.ClosedByController(last, UNREACHABLE, walk.choice([0, 1])),
            on.CloseRequested(Reason.CLOSED_BY_USER),
            on.Tick(),
            on.ControllerBack(),
        ]
        event = walk.choice(awaited if call and walk.random() < 0.8 else others)
        now += walk.choice([0.0, 0.1, 0.1, 3.0, 3.0, 70.0])
        opened += isinstance(event, on.TunnelOpened)
        machine.handle(event, now)
        if type(machine.state) is not type(state):
            seen.add((type(state), type(event), type(machine.state)))
    assert seen == declared


def test_the_diagram_in_the_readme_is_the_tables() -> None:
    drawing = Path(__file__).parents[1] / "draw-states"
    subprocess.run([sys.executable, drawing, "--check"], check=True)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40)
