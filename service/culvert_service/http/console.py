"""Serves the admin console's built files from memory, with a strict Content-Security-Policy.

Every path below /console/ that is not a file returns the page, whose own router selects the view.
A missing path below assets/ is 404: a page from before an upgrade then reloads itself.
"""

from __future__ import annotations

import html
import logging
import mimetypes
import secrets
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from starlette.responses import Response

_log = logging.getLogger(__name__)

PREFIX = "/console/"
_PAGE = "index.html"
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
    """Serve the console. False if `directory` has none."""
    files = _read(directory)
    if _PAGE not in files:
        _log.warning("no admin console", extra={"directory": str(directory)})
        return False

    @app.get(f"{PREFIX}{{path:path}}", include_in_schema=False)
    async def console(path: str, request: Request) -> Response:
        file = files.get(path)
        asset = path.startswith(_ASSETS)
        if file is None and asset:
            raise HTTPException(404)
        if file is None or path == _PAGE:
            return _page(files[_PAGE])
        headers = {"Cache-Control": _FOREVER if asset else "no-cache"}
        content = file.content
        if file.compressed is not None:
            headers["Vary"] = "Accept-Encoding"
            if "br" in request.headers.get("Accept-Encoding", ""):
                content, headers["Content-Encoding"] = file.compressed, "br"
        return Response(content, headers=headers, media_type=file.media_type)

    _ = console
    return True


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
