"""The organisations of this computer: a directory for each, numbered in the order of enrolment.

organisations/1/  a StateDir; while it is created or removed, its name begins with a dot and it is ignored
enrolling         the key of the last enrolment and the SHA-256 of its invitation, to repeat a request after a lost answer.
                  Deleted after the first code, after a refusal of the invitation, and at a start after AGAIN.

An old state directory for one organisation has the files of 1/ at its top: they are copied, and only then removed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from contextlib import AbstractContextManager
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from culvert_proto import CulvertError
from culvert_proto.phrases import Phrase

from culvert_client import state_file
from culvert_client.state_dir import KEPT, Identity, StateDir, key_pem
from culvert_client.state_file import copy_of, not_kept, remove, sync_directory, unreadable, write_private

log = logging.getLogger("culvertd")

_FIRST = 1

# Our tunable, in seconds. The controller repeats its answer for ten minutes; clocks may differ.
AGAIN = 3600.0


class Enrolments:
    """Organisations with an unreadable identity are included, so that their prefixes stay blocked.

    `fault`: the reason if the directory cannot be written. Then its readable files count, and nothing is changed.
    """

    def __init__(self, path: Path) -> None:
        self._top = StateDir(path, made=False)
        self._path = path / "organisations"
        self._enrolling = path / "enrolling"
        self.fault: CulvertError | None = None
        self.try_again()

    def try_again(self) -> CulvertError | None:
        """Try to use the directory again. Returns the remaining `fault`."""
        try:
            self._prepare(self._top.path)
        except OSError as error:
            fault = not_kept(Path(error.filename or self._top.path), error)
            # Log a repeated fault only once.
            if str(fault) != str(self.fault):
                log.error("%s", fault)
            self.fault = fault
        else:
            self.fault = None
        return self.fault

    def _prepare(self, path: Path) -> None:
        StateDir(path)
        self._path.mkdir(mode=0o700, exist_ok=True)
        for left in self._path.glob(".*"):
            shutil.rmtree(left)
        if self._enrolling.exists() and time.time() - self._enrolling.stat().st_mtime > AGAIN:
            self.forget_key()
        self._take_over(path)
        if not self._there():
            self._empty()

    def room(self) -> AbstractContextManager[None]:
        """As `state_file.room`, for another organisation."""
        return self._top.room()

    def key_for(self, token: str) -> ec.EllipticCurvePrivateKey:
        """The key for an invitation: the same at each call, and stored on the disk. Raises OSError."""
        if (kept := self.find_key(token)) is not None:
            return kept
        key = ec.generate_private_key(ec.SECP256R1())
        self.forget_key()
        content = json.dumps({"invitation": _digest(token), "key": key_pem(key).decode()})
        state_file.write(self._enrolling, content.encode())
        return key

    def find_key(self, token: str) -> ec.EllipticCurvePrivateKey | None:
        """The key that this computer has used for an invitation before."""
        try:
            return state_file.read(self._enrolling, lambda stored: _read_key(stored, _digest(token)))
        except CulvertError:
            # It needs another key. If the controller has answered for the old key, the invitation is lost anyway.
            return None

    def forget_key(self) -> None:
        """Forget the key once the person has the enrolment's secrets, or the invitation was refused."""
        remove(self._enrolling)

    def all(self) -> dict[int, StateDir]:
        """The organisations by number, in order; a single empty one if this computer is not enrolled."""
        if self.fault is None:
            return self._there() or self._empty()
        try:
            found = self._there(made=False)
        except FileNotFoundError:
            found = {}
        except OSError as error:
            lost = unreadable(self._path, Phrase(error.strerror or str(error)))
            return {_FIRST: StateDir(self._path / str(_FIRST), made=False, fault=lost)}
        # Include an old enrolment that is not copied yet.
        profile = self._top.profile_path
        if not found or self._top.is_enrolled or profile.exists() or copy_of(profile).exists():
            found[max(found, default=_FIRST - 1) + 1] = self._top
        return found

    def _there(self, *, made: bool = True) -> dict[int, StateDir]:
        kept = (it for it in self._path.iterdir() if it.name.isdecimal() and any(it.iterdir()))
        return {
            number: StateDir(self._path / str(number), made=made)
            for number in sorted(int(it.name) for it in kept)
        }

    def _empty(self) -> dict[int, StateDir]:
        return {_FIRST: StateDir(self._path / str(_FIRST))}

    def add(self, identity: Identity) -> tuple[int, StateDir]:
        """Add an organisation after all others."""
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
        # The next start removes any files that are left.
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
        # The identity is removed last: its presence shows that this is unfinished.
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


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _read_key(stored: bytes, digest: str) -> ec.EllipticCurvePrivateKey | None:
    """The stored key; None if it is another invitation's. Raises ValueError."""
    kept: dict[str, str] = json.loads(stored)
    if kept["invitation"] != digest:
        return None
    key = load_pem_private_key(kept["key"].encode(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError
    return key
