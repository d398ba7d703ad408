"""Serves the built pages from memory, with a strict Content-Security-Policy: the admin console, and the invitation's page.

Every path below a page that is not a file returns the page: the console's own router selects the view.
A missing path below assets/ is 404: a page from before an upgrade then reloads itself.
"""

from __future__ import annotations

import html
import logging
import mimetypes
import secrets
from dataclasses import dataclass
from pathlib import Path

from culvert_proto.invitation_link import PAGE_PATH
from fastapi import FastAPI, HTTPException, Request
from starlette.responses import Response

_log = logging.getLogger(__name__)

PREFIX = "/console/"
_PAGE = "index.html"
# The invitation's page needs no sign-in, and is built into a folder of its own.
_INVITATION_FILES = "enroll/"
_INVITATION_PAGE = "enroll.html"
_ASSETS = "assets/"
_BROTLI = ".br"
# For files whose names contain a hash of their content.
_FOREVER = "public, max-age=31536000, immutable"
# The placeholder of the nonce in the page; vite.config.ts writes it.
_NONCE = b"{{nonce}}"


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    compressed: bytes | None
    media_type: str


def install(app: FastAPI, directory: Path) -> bool:
    """Serve both pages. False if `directory` has none."""
    files = _read(directory)
    if _PAGE not in files:
        _log.warning("no admin console", extra={"directory": str(directory)})
        return False
    invitation = {
        name.removeprefix(_INVITATION_FILES): files.pop(name)
        for name in list(files)
        if name.startswith(_INVITATION_FILES)
    }
    _serve(app, f"{PREFIX}{{path:path}}", files, _PAGE)
    _serve(app, PAGE_PATH, invitation, _INVITATION_PAGE)
    _serve(app, f"{PAGE_PATH}/{{path:path}}", invitation, _INVITATION_PAGE)
    return True


def _serve(app: FastAPI, route: str, files: dict[str, _File], page: str) -> None:
    @app.get(route, include_in_schema=False)
    async def answer(request: Request, path: str = "") -> Response:
        file = files.get(path)
        asset = path.startswith(_ASSETS)
        if file is None and asset:
            raise HTTPException(404)
        if file is None or path == page:
            return _page(files[page])
        headers = {"Cache-Control": _FOREVER if asset else "no-cache"}
        content = file.content
        if file.compressed is not None:
            headers["Vary"] = "Accept-Encoding"
            if "br" in request.headers.get("Accept-Encoding", ""):
                content, headers["Content-Encoding"] = file.compressed, "br"
        return Response(content, headers=headers, media_type=file.media_type)

    _ = answer


def _page(file: _File) -> Response:
    # The component library adds style elements, which need the nonce.
    nonce = secrets.token_urlsafe(16)
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": f"'self' 'nonce-{nonce}'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    headers = {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Cache-Control": "no-store",
    }
    content = file.content.replace(_NONCE, html.escape(nonce).encode())
    return Response(content, headers=headers, media_type=file.media_type)


def _read(directory: Path) -> dict[str, _File]:
    """The files by their paths below `directory`."""
    found = {str(file.relative_to(directory)): file for file in directory.rglob("*") if file.is_file()}
    return {
        name: _File(
            file.read_bytes(),
            found[name + _BROTLI].read_bytes() if name + _BROTLI in found else None,
            mimetypes.guess_type(name)[0] or "application/octet-stream",
        )
        for name, file in found.items()
        if file.suffix != _BROTLI
    }
