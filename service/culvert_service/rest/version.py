"""Prevents lost updates: a row's version is its ETag, and changes check If-Match (RFC 9110 sections 8.8.3, 13.1.1)."""

from __future__ import annotations

from typing import Annotated, TypeVar

from culvert_proto import CulvertError, Reason
from fastapi import Header, Response

_Shown = TypeVar("_Shown")


class VersionStaleError(CulvertError):
    """`etag`: the row's present ETag."""

    def __init__(self, what: str, sent: str, version: int) -> None:
        self.etag = etag(version)
        super().__init__(Reason.VERSION_STALE, what=what, sent=sent, current=self.etag)


class MayMatch:
    """A FastAPI dependency: the optional If-Match header, for actions that are allowed on any version."""

    def __init__(
        self,
        if_match: Annotated[str | None, Header(max_length=256, description="The object's ETag")] = None,
    ) -> None:
        self._sent = if_match

    def check(self, what: str, version: int) -> None:
        """Must be called in the transaction that has locked the row. Raises CulvertError VERSION_STALE."""
        if self._sent is None:
            return
        # Strong comparison: our ETags are never weak.
        seen = [part.strip() for part in self._sent.split(",")]
        if "*" not in seen and etag(version) not in seen:
            raise VersionStaleError(what, self._sent, version)


class IfMatch(MayMatch):
    """The required If-Match header, for changes that overwrite."""

    def check(self, what: str, version: int) -> None:
        """As MayMatch.check. Raises also CulvertError VERSION_NEEDED."""
        if self._sent is None:
            raise CulvertError(Reason.VERSION_NEEDED, what=what)
        super().check(what, version)


def etag(version: int) -> str:
    return f'"{version}"'


def tag(response: Response, found: tuple[_Shown, int]) -> _Shown:
    """Return the object, and set its version as the answer's ETag."""
    shown, version = found
    response.headers["ETag"] = etag(version)
    return shown
