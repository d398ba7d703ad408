"""Lost updates: a row's version as its ETag, and If-Match on what changes it (RFC 9110 sections 8.8.3 and 13.1.1)."""

from __future__ import annotations

from typing import Annotated, TypeVar

from culvert_proto import CulvertError, Reason
from fastapi import Header, Response

_Shown = TypeVar("_Shown")


class VersionStaleError(CulvertError):
    """`etag` is what the row has now."""

    def __init__(self, what: str, sent: str, version: int) -> None:
        self.etag = etag(version)
        super().__init__(Reason.VERSION_STALE, what=what, sent=sent, current=self.etag)


class MayMatch:
    """A FastAPI dependency: the versions that the caller has seen, if they say so. For what can be done to any."""

    def __init__(
        self,
        if_match: Annotated[str | None, Header(max_length=256, description="The ETag that was read")] = None,
    ) -> None:
        self._sent = if_match

    def check(self, what: str, version: int) -> None:
        """In the transaction that has locked the row. Raises CulvertError VERSION_STALE."""
        if self._sent is None:
            return
        # The comparison is the strong one: a weak ETag is none of ours.
        seen = [part.strip() for part in self._sent.split(",")]
        if "*" not in seen and etag(version) not in seen:
            raise VersionStaleError(what, self._sent, version)


class IfMatch(MayMatch):
    """The same for what writes over what is there: it has to be said."""

    def check(self, what: str, version: int) -> None:
        """Raises CulvertError VERSION_NEEDED too."""
        if self._sent is None:
            raise CulvertError(Reason.VERSION_NEEDED, what=what)
        super().check(what, version)


def etag(version: int) -> str:
    return f'"{version}"'


def tagged(response: Response, found: tuple[_Shown, int]) -> _Shown:
    """The object, with its version as the answer's ETag."""
    shown, version = found
    response.headers["ETag"] = etag(version)
    return shown
