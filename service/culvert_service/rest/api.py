"""The ways into the REST API. Each route is built once, with its whole path, its check and its refusals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Depends

from culvert_service.rest.problem import REFUSALS

PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class Api:
    """`check` is a FastAPI dependency of each route. It raises CulvertError for a caller that may not come in here."""

    check: Callable[..., Awaitable[None]]

    def router(
        self, prefix: str = "", *, tag: str, checks: Sequence[Callable[..., Awaitable[None]]] = ()
    ) -> APIRouter:
        """`checks` come after the one of all."""
        dependencies = [Depends(check) for check in (self.check, *checks)]
        return APIRouter(prefix=PREFIX + prefix, tags=[tag], dependencies=dependencies, responses=REFUSALS)
