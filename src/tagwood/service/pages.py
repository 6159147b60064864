"""`StaticPages`: the web page's files, from one folder and nothing else. In: a path. Out: a file, or 404."""

from __future__ import annotations

import mimetypes
from hashlib import sha256
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}


class StaticPages:
    """Answers with files that were there when the service started: no request ever names a file on the disk.

    Parameters
    ----------
    folder
        Where the files are; ``index.html`` answers for ``/``.
    """

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
            if path.is_file() and not path.name.startswith("."):
                content = path.read_bytes()
                kind = (
                    _TYPES.get(path.suffix)
                    or mimetypes.guess_type(path.name)[0]
                    or "application/octet-stream"
                )
                tag = f'"{sha256(content).hexdigest()[:20]}"'
                self._files[f"/{path.relative_to(folder).as_posix()}"] = (content, kind, tag)
        if "/index.html" in self._files:
            self._files["/"] = self._files["/index.html"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        found = self._files.get(scope["path"])
        if found is None:
            raise HTTPException(404)
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        content, kind, tag = found
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if tag in Request(scope).headers.get("if-none-match", ""):
            await Response(status_code=304, headers=headers)(scope, receive, send)
            return
        await Response(content, 200, headers, kind)(scope, receive, send)
