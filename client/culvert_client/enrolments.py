"""The organisations that this computer is enrolled with: a directory for each, numbered in the order of enrolment.

organisations/1/   a StateDir; one that is being made, or that goes, begins with a dot and does not count

A state directory for one organisation has at its top what 1/ has: it is copied, and only then removed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from culvert_client.state_dir import KEPT, Identity, StateDir
from culvert_client.state_file import copy_of, remove, sync_directory, write_private

_FIRST = 1


class Enrolments:
    """Raises OSError when the directory cannot be used. An organisation whose identity is unreadable still counts: what it
    protects stays blocked."""

    def __init__(self, path: Path) -> None:
        self._top = StateDir(path)
        self._path = path / "organisations"
        self._path.mkdir(mode=0o700, exist_ok=True)
        for left in self._path.glob(".*"):
            shutil.rmtree(left)
        self._take_over(path)

    def all(self) -> dict[int, StateDir]:
        """By number, in order; at least one, which is empty when this computer is not enrolled."""
        return self._there() or {_FIRST: StateDir(self._path / str(_FIRST))}

    def _there(self) -> dict[int, StateDir]:
        kept = (it for it in self._path.iterdir() if it.name.isdecimal() and any(it.iterdir()))
        return {int(it.name): StateDir(it) for it in sorted(kept, key=lambda it: int(it.name))}

    def add(self, identity: Identity) -> tuple[int, StateDir]:
        """One organisation more, after all others."""
        fresh = self._path / ".new"
        StateDir(fresh).keep_identity(identity)
        number = max(self.all()) + 1
        fresh.rename(self._path / str(number))
        sync_directory(self._path)
        return number, StateDir(self._path / str(number))

    def remove(self, number: int) -> None:
        gone = self._path / f".gone-{number}"
        shutil.rmtree(gone, ignore_errors=True)
        (self._path / str(number)).rename(gone)
        # What is left of it, the next start removes.
        shutil.rmtree(gone, ignore_errors=True)

    def _take_over(self, top: Path) -> None:
        identity = self._top.identity()
        there = {number: state.identity() for number, state in self._there().items()}
        profile = top / "profile.json"
        if identity is None and (there or not (profile.exists() or copy_of(profile).exists())):
            return
        if identity is None or identity not in there.values():
            self._copy(top, identity, there)
        for name in KEPT:
            remove(top / name)
        # Last: as long as it is there, this is not finished.
        for name in filter(lambda it: (top / it).exists(), ("identity-old", "identity")):
            (top / name).rename(self._path / f".gone-{name}")
            shutil.rmtree(self._path / f".gone-{name}")

    def _copy(self, top: Path, identity: Identity | None, there: dict[int, Identity | None]) -> None:
        fresh = self._path / ".new"
        copy = StateDir(fresh)
        if identity is not None:
            copy.keep_renewed(identity)
        for file in (it for name in KEPT for it in (top / name, copy_of(top / name))):
            if file.exists():
                write_private(fresh / file.name, file.read_bytes(), durable=True)
        same = (
            number for number, it in there.items() if it and identity and it.controller == identity.controller
        )
        number = next(same, max(there, default=_FIRST - 1) + 1)
        if number in there:
            (self._path / str(number)).rename(self._path / f".gone-{number}")
        fresh.rename(self._path / str(number))
        sync_directory(self._path)
