"""Makes the routers of the REST API, with path prefix, checks and documented refusals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Depends

from culvert_service.rest.problem import SAME_REFUSALS
from culvert_service.rest.stored_text import LocalisedRoute

PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class Api:
    """`check`: a FastAPI dependency of every route. It raises CulvertError for a caller without access."""

    check: Callable[..., Awaitable[None]]

    def router(
        self, prefix: str = "", *, tag: str, checks: Sequence[Callable[..., Awaitable[None]]] = ()
    ) -> APIRouter:
        """`checks`: further dependencies, which run after `check`."""
        dependencies = [Depends(check) for check in (self.check, *checks)]
        return APIRouter(
            prefix=PREFIX + prefix,
            tags=[tag],
            dependencies=dependencies,
            responses=SAME_REFUSALS,
            route_class=LocalisedRoute,
        )
