"""`Guard`: what every request passes before any route. In: an ASGI request. Out: a refusal, or a safe answer.

Checks host name, token, CORS and the number of requests in work; gives each request an id; writes one log line and one
count per request. Nothing that comes from outside is repeated in a header, but an id of harmless letters.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any, get_type_hints

import orjson
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tagwood.errors import InputError
from tagwood.service.observability import Log, Telemetry
from tagwood.service.problems import ProblemError, from_input_error, from_validation, problem_response
from tagwood.service.settings import Limits, Settings

# SECTION service.bodies
# `JsonRoute`: how bodies come in and answers go out. In: a request. Out: the endpoint's value as JSON.
#
# FastAPI documents the route from the endpoint's signature; reading, limits and checking are done here, because a body
# must be refused before it is read whole, and because it is several times faster.
#
# Decisions: only ``application/json`` is taken, so that a web page of another origin cannot post without being asked
# (CORS). A body that is too large is thrown away as it comes, so that the client can read the answer.


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


_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE_HEADERS = [
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
_ALWAYS_OPEN = ("/health", "/ready")
_METHODS = "GET, POST"
_CORS_HEADERS = "Authorization, Content-Type, X-Request-ID"
_MAX_HEADER_BYTES = 32_768


class Guard:
    """The outermost layer of the service.

    Parameters
    ----------
    app
        What answers.
    settings
        Of the service.
    telemetry, log
        Where requests are counted and written down.
    owner
        The FastAPI app, whose routes with a body and a fixed path are called directly.
    """

    def __init__(
        self, app: ASGIApp, settings: Settings, telemetry: Telemetry, log: Log, owner: FastAPI
    ) -> None:
        self._app = app
        self._owner = owner
        self._direct = {
            ("POST", route.path): route
            for route in owner.router.routes
            if isinstance(route, JsonRoute) and "{" not in route.path
        }
        self._token = None if settings.token is None else settings.token.encode()
        self._origins = {origin.encode() for origin in settings.origins}
        self._hosts = {host.encode() for host in settings.hosts}
        self._most = settings.limits.concurrent
        self._telemetry = telemetry
        self._log = log
        self._in_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if _ID.fullmatch(given) else os.urandom(8).hex()
        scope["request_id"] = request_id
        extra = [*SAFE_HEADERS, (b"x-request-id", request_id.encode()), *self._cors(headers)]
        if scope["path"].startswith("/v1"):
            extra.append((b"cache-control", b"no-store"))
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        self._in_work += 1
        self._telemetry.set("in_flight", self._in_work)
        try:
            await self._pass(scope, receive, answer, headers)
        except ClientDisconnect:
            status = status or 499
        except Exception as error:
            self._log.failure(request_id, error)
            if status == 0:
                problem = ProblemError(
                    "internal", "The log of the service says more, under this request's id."
                )
                await problem_response(problem, request_id)(scope, receive, answer)
        finally:
            self._in_work -= 1
            self._telemetry.set("in_flight", self._in_work)
            seconds = perf_counter() - start
            route = _route(scope)
            self._telemetry.request(route, status, seconds)
            self._log.request(request_id, scope["method"], route, status, seconds)

    async def _pass(self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, bytes]) -> None:
        try:
            if b"access-control-request-method" in headers and scope["method"] == "OPTIONS":
                response = Response(status_code=204)
            else:
                self._check(scope, headers)
                route = self._direct.get((scope["method"], scope["path"]))
                if route is None:
                    await self._app(scope, receive, send)
                    return
                scope["app"], scope["route"] = self._owner, route
                response = await route.answer(Request(scope, receive))
        except ProblemError as problem:
            response = problem_response(problem, scope["request_id"])
        except InputError as error:
            response = problem_response(from_input_error(error), scope["request_id"])
        await response(scope, receive, send)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raise a problem for a request that must not go on."""
        path = scope["path"]
        if self._hosts and _host(headers.get(b"host", b"")) not in self._hosts:
            raise ProblemError(
                "forbidden-host", "Start the service with this host name: tagwood serve --allow-host."
            )
        if sum(len(name) + len(value) for name, value in scope["headers"]) > _MAX_HEADER_BYTES:
            raise ProblemError("headers-too-large", f"Headers may have {_MAX_HEADER_BYTES:,} bytes.")
        if path in _ALWAYS_OPEN:
            return
        if self._in_work > self._most:
            detail = f"{self._most} requests are in work; send the next after an answer has come."
            raise ProblemError("too-many-requests", detail, headers={"Retry-After": "1"})
        if self._token is not None and (path.startswith("/v1") or path == "/metrics"):
            self._check_token(headers.get(b"authorization", b""))

    def _check_token(self, given: bytes) -> None:
        scheme, _, token = given.partition(b" ")
        right = hmac.compare_digest(token.strip(), self._token or b"")
        if scheme.lower() != b"bearer" or not right:
            detail = "Send the header 'Authorization: Bearer TOKEN' with the token of this service."
            raise ProblemError("unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="tagwood"'})

    def _cors(self, headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        if not self._origins:
            return []
        origin = headers.get(b"origin", b"")
        if origin not in self._origins:
            return [(b"vary", b"Origin")]
        return [
            (b"vary", b"Origin"),
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", _METHODS.encode()),
            (b"access-control-allow-headers", _CORS_HEADERS.encode()),
            (b"access-control-expose-headers", b"X-Request-ID, Retry-After"),
            (b"access-control-max-age", b"600"),
        ]


def _host(given: bytes) -> bytes:
    """Return a host without its port."""
    return given.rpartition(b":")[0] if re.search(rb":\d+$", given) else given


def _route(scope: Scope) -> str:
    """Return the route's pattern: what was typed in its place may be anything."""
    route: Any = scope.get("route")
    return getattr(route, "path", None) or (scope["path"] if scope["path"] in _ALWAYS_OPEN else "other")
