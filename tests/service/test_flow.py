"""How many files of the package a request passes: a reader who follows one should not get lost."""

import asyncio
import json
import sys
from pathlib import Path

import tagwood
from tagwood.service.app import create_app

PACKAGE = Path(tagwood.__file__).parent


async def post(app, path, body):
    """Send a request to an app in this thread; return the status."""
    raw = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode())]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
    sent = []

    async def receive():
        return {"type": "http.request", "body": raw}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"]


def entered_files(app, body):
    """Return the files of the package with functions that a second request for suggestions enters."""
    found = set()

    def profile(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in path.parents:
            found.add(path.relative_to(PACKAGE).as_posix())

    async def work():
        async with app.router.lifespan_context(app):
            assert await post(app, "/v1/suggest", body) == 200
            before = sys.getprofile()
            sys.setprofile(profile)
            try:
                assert await post(app, "/v1/suggest", body) == 200
            finally:
                sys.setprofile(before)

    asyncio.run(work())
    return found


def test_a_request_for_suggestions_passes_at_most_17_files(tagger):
    found = entered_files(create_app(tagger), {"texts": "oak and elm", "k": 3})
    assert "service/batching.py" in found
    assert len(found) <= 17, sorted(found)
