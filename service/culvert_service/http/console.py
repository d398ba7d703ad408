"""The admin console's built files, from memory, with the headers that keep a browser to them.

Every path below /console/ that is no file is the page itself: which of its views is meant, its own router says.
Below assets/ it is nothing: a page from before an upgrade asks there for what is gone, and loads itself again.
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
# Their names change with their content.
_FOREVER = "public, max-age=31536000, immutable"
# In the page where the answer's nonce belongs; vite.config.ts writes it.
_NONCE = b"{{nonce}}"


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    compressed: bytes | None
    media_type: str


def install(app: FastAPI, directory: Path) -> bool:
    """Whether there is a console in `directory`."""
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
    # The component library writes its themes into style elements.
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
    """By their paths below `directory`."""
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
