"""A directory for each organisation; what is there of before is taken over, wherever that was broken off."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from culvert_client.core.grant import TunnelId
from culvert_client.enrolments import Enrolments
from culvert_client.state_dir import Identity, StateDir
from culvert_proto import agent_pb2

ACME = Identity("https://acme:1", "acme:2", "d1", "alice", 1000, b"cert", b"ca", b"KEYBYTES")
BETA = Identity("https://beta:1", "beta:2", "d2", "alice", 1000, b"cert2", b"ca2", b"KEY2")
PROFILE = agent_pb2.Profile(user="alice", protected_prefixes=["10.20.0.0/16"])


def before(path: Path) -> None:
    """The state directory of an earlier version."""
    state = StateDir(path)
    state.keep_identity(ACME)
    state.keep_profile(PROFILE)
    state.keep_tunnels({"wiki": TunnelId("t1")})
    state.keep_gateway("gw")
    state.keep_pause(7)


def works(state: StateDir) -> bool:
    kept = (state.identity(), state.profile(), state.tunnels(), state.gateway(), state.paused_until())
    return kept == (ACME, PROFILE, {"wiki": "t1"}, "gw", 7)


def test_each_has_a_directory_of_its_own_and_leaves_with_it(tmp_path: Path) -> None:
    enrolments = Enrolments(tmp_path)
    [(number, first)] = enrolments.all().items()
    assert (number, first.identity()) == (1, None)
    first.keep_identity(ACME)
    first.keep_profile(PROFILE)
    second, _ = enrolments.add(BETA)
    assert {it: state.identity() for it, state in Enrolments(tmp_path).all().items()} == {
        1: ACME,
        second: BETA,
    }
    for path in tmp_path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    enrolments.remove(1)
    assert [it.identity() for it in Enrolments(tmp_path).all().values()] == [BETA]
    enrolments.remove(second)
    assert [it.identity() for it in Enrolments(tmp_path).all().values()] == [None]


def test_a_profile_without_an_identity_is_kept(tmp_path: Path) -> None:
    StateDir(tmp_path).keep_profile(PROFILE)
    for _ in range(2):
        [state] = Enrolments(tmp_path).all().values()
        assert (state.identity(), state.profile()) == (None, PROFILE)


class Killed(BaseException):
    pass


def test_an_enrolment_of_before_is_taken_over_wherever_that_was_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at each change to the disk: either layout works whole, and the next start ends with the new one."""
    # Only the process ends, not the computer: two thousand waits for the disk would be of no use.
    monkeypatch.setattr(os, "fsync", _sync_nothing)
    killed_at = 0
    for killed_at in itertools.count():
        path = tmp_path / str(killed_at)
        before(path)
        changes = itertools.count()
        with monkeypatch.context() as patch:
            for owner, name in (
                (Path, "rename"),
                (Path, "mkdir"),
                (Path, "unlink"),
                (os, "open"),
                (os, "fsync"),
                (shutil, "rmtree"),
            ):
                _dies_at(patch, owner, name, changes, killed_at)
            try:
                Enrolments(path)
            except Killed:
                pass
            else:
                break
        moved = path / "organisations/1"
        assert works(StateDir(path)) or (moved.exists() and works(StateDir(moved)))
        [state] = Enrolments(path).all().values()
        assert works(state)
        assert [it.name for it in path.iterdir()] == ["organisations"]
        assert [it.name for it in (path / "organisations").iterdir()] == ["1"]
    assert killed_at > 20


def _sync_nothing(_descriptor: int) -> None:
    pass


def _dies_at(
    patch: pytest.MonkeyPatch, owner: Any, name: str, changes: itertools.count[int], at: int
) -> None:
    real = getattr(owner, name)

    def dies(*arguments: Any, **named: Any) -> Any:
        if next(changes) == at:
            raise Killed
        return real(*arguments, **named)

    patch.setattr(owner, name, dies)


def test_a_later_enrolment_of_an_earlier_version_wins(tmp_path: Path) -> None:
    before(tmp_path)
    Enrolments(tmp_path)
    again = Identity("https://acme:1", "acme:2", "d3", "alice", 0, b"cert3", b"ca", b"KEY3")
    StateDir(tmp_path).keep_identity(again)
    assert [it.identity() for it in Enrolments(tmp_path).all().values()] == [again]
