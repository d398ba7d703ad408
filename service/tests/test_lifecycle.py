"""The life of a tunnel under any sequence of events."""

from __future__ import annotations

from culvert_service.tunnels.lifecycle import (
    Activate,
    Drained,
    Event,
    Generations,
    Renew,
    Reopen,
    StaleGenerationError,
    advance,
)
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule


class Life(RuleBasedStateMachine):
    """Plays the gateway: what is installed, and what it seals with."""

    @initialize()
    def open(self) -> None:
        self.generations = Generations(1)
        self.installed = {1}
        self.sealing = 1
        self.used = {1}

    @rule(back=st.integers(-1, 3))
    def renew(self, back: int) -> None:
        self.play(Renew(self.generations.current - back))

    @rule(forward=st.integers(-2, 3))
    def activate(self, forward: int) -> None:
        self.play(Activate(self.generations.current + forward))

    @rule()
    def activate_pending(self) -> None:
        if self.generations.pending is not None:
            before = self.generations.pending
            self.play(Activate(before))
            assert self.sealing == before

    @rule()
    def reopen(self) -> None:
        self.play(Reopen())
        assert self.generations.pending is None

    @rule(generation=st.integers(0, 6))
    def drained(self, generation: int) -> None:
        self.play(Drained(generation))

    def play(self, event: Event) -> None:
        before = self.generations
        try:
            step = advance(before, event)
        except StaleGenerationError:
            assert self.generations is before
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
        self.generations = step.generations

    @invariant()
    def gateway_matches(self) -> None:
        assert self.installed == self.generations.numbers
        assert self.sealing == self.generations.current

    @invariant()
    def what_is_sealed_with_is_installed(self) -> None:
        assert self.sealing in self.installed
        assert self.generations.current not in self.generations.draining
        assert self.generations.pending not in self.generations.draining


TestLife = Life.TestCase


def test_a_whole_rekey() -> None:
    renewed = advance(Generations(1), Renew(1))
    assert (renewed.install, renewed.switch, renewed.remove) == (2, None, frozenset())
    switched = advance(renewed.generations, Activate(2))
    assert (switched.install, switched.switch, switched.drain) == (None, 2, 1)
    assert advance(switched.generations, Activate(2)).generations == switched.generations
    drained = advance(switched.generations, Drained(1))
    assert (drained.remove, drained.generations) == (frozenset({1}), Generations(2))
