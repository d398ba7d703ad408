"""Serves the repository's files as they are, to anyone: what protects a laptop is the release's signature."""

from __future__ import annotations

import os

from fastapi import APIRouter, Depends, HTTPException
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from culvert_service.apt.service import ARCHIVE, PREFIX, ReleasePackages
from culvert_service.rest.api import Api

# A cache may keep a file, and asks whether it is still the same: a later release has other files of the same names.
_CACHE = {"Cache-Control": "no-cache"}


class _Files(StaticFiles):
    """Starlette refuses paths and links that lead out of the folder, and reads GET, HEAD, Range and If-None-Match."""

    async def check_config(self) -> None:
        """The folder comes and goes with the package culvert-repository."""
        try:
            await super().check_config()
        except RuntimeError:
            raise HTTPException(404) from None

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(_CACHE)
        return response


def public_router(api: Api, packages: ReleasePackages) -> APIRouter:
    routes = APIRouter(dependencies=[Depends(api.check)])

    @routes.get(f"{PREFIX}/{ARCHIVE}", include_in_schema=False)
    async def archive() -> Response:
        offer = await packages.offer()
        if offer is None:
            raise HTTPException(404)
        return Response(offer.archive, headers=_CACHE, media_type="application/vnd.debian.binary-package")

    routes.routes.append(Mount(PREFIX, _Files(directory=packages.folder, check_dir=False)))
    _ = archive
    return routes
