"""The life of a tunnel under any sequence of events."""

from __future__ import annotations

from culvert_service.sessions.lifecycle import (
    Activate,
    Drained,
    Event,
    Renew,
    Reopen,
    Session,
    StaleGenerationError,
    advance,
)
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule


class Life(RuleBasedStateMachine):
    """Plays the gateway: what is installed, and what it seals with."""

    @initialize()
    def open(self) -> None:
        self.session = Session(1)
        self.installed = {1}
        self.sealing = 1
        self.used = {1}

    @rule(back=st.integers(-1, 3))
    def renew(self, back: int) -> None:
        self.play(Renew(self.session.current - back))

    @rule(forward=st.integers(-2, 3))
    def activate(self, forward: int) -> None:
        self.play(Activate(self.session.current + forward))

    @rule()
    def activate_pending(self) -> None:
        if self.session.pending is not None:
            before = self.session.pending
            self.play(Activate(before))
            assert self.sealing == before

    @rule()
    def reopen(self) -> None:
        self.play(Reopen())
        assert self.session.pending is None

    @rule(generation=st.integers(0, 6))
    def drained(self, generation: int) -> None:
        self.play(Drained(generation))

    def play(self, event: Event) -> None:
        before = self.session
        try:
            step = advance(before, event)
        except StaleGenerationError:
            assert self.session is before
            return
        if step.install is not None:
            assert step.install not in self.used, "a generation is never used twice"
            self.used.add(step.install)
            self.installed.add(step.install)
        if step.switch is not None:
            self.sealing = step.switch
        if step.drain is not None:
            assert step.drain == before.current
            assert step.drain in self.installed, "what drains is still there"
        self.installed -= step.remove
        self.session = step.session

    @invariant()
    def gateway_matches(self) -> None:
        assert self.installed == self.session.generations
        assert self.sealing == self.session.current

    @invariant()
    def what_is_sealed_with_is_installed(self) -> None:
        assert self.sealing in self.installed
        assert self.session.current not in self.session.draining
        assert self.session.pending not in self.session.draining


TestLife = Life.TestCase


def test_a_whole_rekey() -> None:
    renewed = advance(Session(1), Renew(1))
    assert (renewed.install, renewed.switch, renewed.remove) == (2, None, frozenset())
    switched = advance(renewed.session, Activate(2))
    assert (switched.install, switched.switch, switched.drain) == (None, 2, 1)
    assert advance(switched.session, Activate(2)).session == switched.session
    drained = advance(switched.session, Drained(1))
    assert (drained.remove, drained.session) == (frozenset({1}), Session(2))
