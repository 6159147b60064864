"""`JsonRoute`: how bodies come in and answers go out. In: a request. Out: the endpoint's value as JSON.

FastAPI documents the route from the endpoint's signature; reading, limits and checking are done here, because a body
must be refused before it is read whole, and because it is several times faster.

Decisions: only ``application/json`` is taken, so that a web page of another origin cannot post without being asked
(CORS). A body that is too large is thrown away as it comes, so that the client can read the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, get_type_hints

import orjson
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from tagwood.service.problems import ProblemError, from_validation
from tagwood.service.settings import Limits

_CLOSE = {"Connection": "close"}


class JsonResponse(JSONResponse):
    """JSON by orjson; bytes go out as they are."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return content if isinstance(content, bytes) else orjson.dumps(content, default=_plain)


class JsonRoute(APIRoute):
    """A route whose endpoint takes the request, one checked body, and what stands in the path.

    ``endpoint(request, body, **path_parameters)``. `answer` is what answers a request, without the layers that FastAPI
    puts around it: they take longer than a short text takes to be tagged, so `Guard` leaves them out.
    """

    answer: Callable[[Request], Coroutine[Any, Any, Response]]

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        endpoint: Callable[..., Awaitable[Any]] = self.endpoint
        hints = get_type_hints(endpoint, include_extras=True)
        adapters: dict[str, TypeAdapter[Any]] = {
            name: TypeAdapter(hint) for name, hint in hints.items() if name not in ("request", "return")
        }
        body_adapter = adapters.pop("body")
        status = self.status_code or 200

        async def handle(request: Request) -> Response:
            raw = await read_body(request, request.app.state.settings.limits)
            body = parse_body(raw, body_adapter)
            places = {name: _place(request, name, adapter) for name, adapter in adapters.items()}
            value = await endpoint(request, body, **places)
            return JsonResponse(value, status)

        self.answer = handle
        return handle


def _place(request: Request, name: str, adapter: TypeAdapter[Any]) -> Any:
    try:
        return adapter.validate_python(request.path_params[name])
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise from_validation([{**one, "loc": ("path", name)} for one in found]) from None


def parse_body(raw: bytes, adapter: TypeAdapter[Any]) -> Any:
    """Return the checked value of a body. NaN, lone surrogates and endless nesting are no JSON."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ProblemError("invalid-json", f"The body is not valid JSON: {error.msg}.") from None
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise from_validation(found) from None


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return the body, or raise a `ProblemError` for what is too large, too slow or no JSON."""
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError("unsupported-type", "Send the body as application/json.", headers=_CLOSE)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemError("unsupported-type", "Send the body without compression.", headers=_CLOSE)
    length = headers.get("content-length", "")
    too_large = length.isdecimal() and int(length[:20]) > limits.body_bytes
    if too_large and "expect" in headers:
        raise _too_large(limits)  # the client waits for leave to send
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await _collect(request, limits, too_large)
    except TimeoutError:
        seconds = f"{limits.body_seconds:g} seconds"
        raise ProblemError("timeout", f"The body must arrive within {seconds}.", headers=_CLOSE) from None


async def _collect(request: Request, limits: Limits, too_large: bool) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        too_large = too_large or size > limits.body_bytes
        if too_large:
            chunks.clear()
        else:
            chunks.append(chunk)
    if too_large:
        raise _too_large(limits)
    return b"".join(chunks)


def _too_large(limits: Limits) -> ProblemError:
    size = f"{limits.body_bytes:,} bytes"
    return ProblemError("body-too-large", f"A body may have {size}; send the texts in parts.", headers=_CLOSE)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="python")
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError
