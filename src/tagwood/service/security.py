"""What every request passes before its route. In: an ASGI request. Out: a refusal, or a route's answer.

`SecurityMiddleware` checks host name, token, CORS and the number of open requests, gives each request an id, writes a
log line and counts it. `JsonRoute` reads and checks bodies. No input is repeated in a header, except for an id of
harmless characters.

Decisions: FastAPI documents a `JsonRoute` from the signature of its endpoint, but bodies are read and checked here: a
body that is too large must be refused before it is read whole, and it is several times faster. Only
``application/json`` is accepted, so that a web page of another origin cannot post without a CORS preflight; forms are
accepted where nothing is stored. The rest of a body that is too large is read and thrown away, so that the client can
read the answer. Slow bodies get half of the open requests at most: many slow senders cannot keep a worker from
answering the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import re
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any, get_type_hints
from urllib.parse import parse_qsl

import orjson
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tagwood.errors import InputError
from tagwood.service.observability import EventLog, ServiceMetrics
from tagwood.service.problems import ProblemError, from_input_error, from_validation, problem_response
from tagwood.service.settings import RequestLimits, ServiceSettings

_PROBES = ("/health", "/ready", "/metrics")  # asked every few seconds: no line in the log unless they fail
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE_HEADERS = [
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
_ALWAYS_OPEN = ("/health", "/ready")
_MAX_HEADER_BYTES = 32_768
_CLOSE = {"Connection": "close"}
_FORM = "application/x-www-form-urlencoded"
_QUICK_SECONDS = 0.5  # a body that takes longer is slow


class SecurityMiddleware:
    """The outermost layer of the service.

    JSON routes of the FastAPI app `service` with a fixed path are called directly, without the layers in between, which
    take longer than tagging a short text.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServiceSettings,
        metrics: ServiceMetrics,
        log: EventLog,
        service: FastAPI,
    ) -> None:
        self._app = app
        self._service = service
        self._direct = {
            ("POST", route.path): route
            for route in service.router.routes
            if isinstance(route, JsonRoute) and "{" not in route.path
        }
        self._token = None if settings.token is None else settings.token.encode()
        self._hosts = {host.encode() for host in settings.hosts}
        self._max_open = settings.limits.concurrent
        self._metrics = metrics
        self._log = log
        self._open = 0
        self._checked: ASGIApp = self._answer
        if settings.origins:
            self._checked = CORSMiddleware(
                self._answer,
                allow_origins=settings.origins,
                allow_methods=("GET", "POST", "PUT", "DELETE"),
                allow_headers=("Authorization", "Content-Type", "X-Request-ID"),
                expose_headers=("X-Request-ID", "Retry-After"),
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = perf_counter()
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        request_id = given.decode() if _ID.fullmatch(given) else os.urandom(8).hex()
        scope["request_id"] = request_id
        extra = [*_SAFE_HEADERS, (b"x-request-id", request_id.encode())]
        if scope["path"].startswith("/v1"):
            extra.append((b"cache-control", b"no-store"))
        scope["status"] = 0

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope["status"] = message["status"]
                own = {name for name, _ in message["headers"]}  # a route may have a policy of its own
                message["headers"] = [*message["headers"], *(one for one in extra if one[0] not in own)]
            await send(message)

        self._open += 1
        self._metrics.set_in_flight(self._open)
        try:
            await self._checked(scope, receive, send_safely)
        finally:
            self._open -= 1
            self._metrics.set_in_flight(self._open)
            seconds = perf_counter() - start
            route = _route(scope)
            self._metrics.request(route, scope["status"], seconds)
            if route not in _PROBES or scope["status"] >= 400:
                self._log.request(request_id, scope["method"], route, scope["status"], seconds)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and answer it; every error becomes a problem."""
        request_id = scope["request_id"]
        try:
            self._check(scope)
            route = self._direct.get((scope["method"], scope["path"]))
            if route is None:
                await self._app(scope, receive, send)
                return
            scope["app"], scope["route"] = self._service, route
            response: Response = await route.answer(Request(scope, receive))
        except ClientDisconnect:
            scope["status"] = scope["status"] or 499
            return
        except ProblemError as problem:
            response = problem_response(problem, request_id)
        except InputError as error:
            response = problem_response(from_input_error(error), request_id)
        except Exception as error:
            self._log.failure(request_id, error)
            if scope["status"]:
                return
            detail = "See the log of the service for the request id."
            response = problem_response(ProblemError("internal", detail), request_id)
        await response(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        """Raise a problem for a request that must not reach a route."""
        path, headers = scope["path"], dict(scope["headers"])
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:  # a proxy may have checked the other one
            raise ProblemError("ambiguous-host", "Send exactly one Host header.", headers=_CLOSE)
        if self._hosts and _host(headers.get(b"host", b"")) not in self._hosts:
            detail = "To accept this host name, start the service with: tagwood serve --allow-host NAME."
            raise ProblemError("forbidden-host", detail)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > _MAX_HEADER_BYTES:
            raise ProblemError("headers-too-large", f"Headers may have at most {_MAX_HEADER_BYTES:,} bytes.")
        if path in _ALWAYS_OPEN:
            return
        if self._open > self._max_open:
            detail = f"{self._max_open} requests are open already; wait for an answer before the next."
            raise ProblemError("too-many-requests", detail, headers={"Retry-After": "1"})
        if self._token is not None and (path.startswith("/v1") or path == "/metrics"):
            _check_token(headers.get(b"authorization", b""), self._token)


def _check_token(given: bytes, expected: bytes) -> None:
    scheme, _, token = given.partition(b" ")
    right = hmac.compare_digest(token.strip(), expected)
    if scheme.lower() != b"bearer" or not right:
        detail = "Send the header 'Authorization: Bearer TOKEN' with the token of this service."
        raise ProblemError("unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="tagwood"'})


def _host(given: bytes) -> bytes:
    """Return a host without its port."""
    return given.rpartition(b":")[0] if re.search(rb":\d+$", given) else given


def _route(scope: Scope) -> str:
    """Return the pattern of the route, since the path itself may contain anything."""
    route: Any = scope.get("route")
    return getattr(route, "path", None) or (scope["path"] if scope["path"] in _ALWAYS_OPEN else "other")


class JsonResponse(JSONResponse):
    """JSON by orjson, NumPy values included."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


class JsonRoute(APIRoute):
    """A route with a JSON body, whose endpoint is ``endpoint(request, body, **parameters of path and query)``."""

    answer: Callable[[Request], Coroutine[Any, Any, Response]]

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request, which is also kept as `answer`."""
        endpoint: Callable[..., Awaitable[Any]] = self.endpoint
        hints = get_type_hints(endpoint, include_extras=True)
        adapters: dict[str, TypeAdapter[Any]] = {
            name: TypeAdapter(hint) for name, hint in hints.items() if name not in ("request", "return")
        }
        body_adapter = adapters.pop("body")
        status = self.status_code or 200
        # A body's class says whether it may also be a form, and which problem an invalid one is.
        forms = getattr(hints["body"], "takes_forms", False)
        kind = getattr(hints["body"], "problem", "invalid-request")

        async def answer(request: Request) -> Response:
            raw = await read_body(request, request.app.state.settings.limits, forms=forms)
            body = parse_body(raw, body_adapter, kind, form=forms and not is_json(request))
            found = {
                name: _validate(adapter, request.path_params[name], ("path", name), kind)
                if name in request.path_params
                else _validate(adapter, request.query_params[name], ("query", name), kind)
                for name, adapter in adapters.items()
                if name in request.path_params or name in request.query_params
            }
            content = await endpoint(request, body, **found)
            return content if isinstance(content, Response) else JsonResponse(content, status)

        self.answer = answer
        return answer


def parse_body(raw: bytes, adapter: TypeAdapter[Any], kind: str = "invalid-request", *, form: bool = False) -> Any:
    """Return the checked value of a body; NaN, lone surrogates and very deep nesting are refused.

    `kind` is the problem that an invalid value is.
    """
    if form:
        try:
            value: Any = dict(parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=1000))
        except ValueError:
            raise ProblemError(kind, "The body must be a form in UTF-8 with at most 1,000 fields.") from None
        return _validate(adapter, value, None, kind, strict=False)  # numbers are words in a form
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ProblemError("invalid-json", f"The body is not valid JSON: {error.msg}.") from None
    return _validate(adapter, value, None, kind)


def _validate(
    adapter: TypeAdapter[Any],
    value: Any,
    loc: tuple[str, ...] | None = None,
    kind: str = "invalid-request",
    *,
    strict: bool | None = None,
) -> Any:
    try:
        return adapter.validate_python(value, strict=strict)
    except ValidationError as error:
        found = error.errors(include_url=False)
        problem = from_validation([{**one, "loc": loc or one["loc"]} for one in found])
        raise ProblemError(kind, problem.detail, problem.errors) from None


def is_json(request: Request) -> bool:
    """Whether a body is declared as JSON."""
    return _media_type(request) == "application/json"


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, limits: RequestLimits, *, forms: bool = False) -> bytes:
    """Return the body, or raise a `ProblemError` if it is too large, too slow or not declared as JSON (or a form)."""
    headers = request.headers
    if not is_json(request) and not (forms and _media_type(request) == _FORM):
        accepted = f"application/json or {_FORM}" if forms else "application/json"
        raise ProblemError("unsupported-type", f"Send the body as {accepted}.", headers=_CLOSE)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemError("unsupported-type", "Send the body without compression.", headers=_CLOSE)
    length = headers.get("content-length", "")
    too_large = length.isdecimal() and int(length[:20]) > limits.body_bytes
    if too_large and "expect" in headers:
        raise _too_large(limits)  # the client waits for permission to send
    body = _Body(request, limits.body_bytes, too_large)
    quick = min(_QUICK_SECONDS, limits.body_seconds)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(quick):
                await body.receive()
        if body.more:
            with request.app.state.slow_bodies:
                async with asyncio.timeout(limits.body_seconds - quick):
                    await body.receive()
    except TimeoutError:
        detail = f"The body must arrive within {limits.body_seconds:g} seconds."
        raise ProblemError("timeout", detail, headers=_CLOSE) from None
    if body.too_large:
        raise _too_large(limits)
    return b"".join(body.chunks)


class _Body:
    """The body of a request as far as it has arrived; one that is too large is read and thrown away."""

    def __init__(self, request: Request, max_bytes: int, too_large: bool) -> None:
        self._receive = request.receive
        self._left = max_bytes
        self.too_large = too_large
        self.chunks: list[bytes] = []
        self.more = True

    async def receive(self) -> None:
        """Receive the rest; this can be cancelled and continued."""
        while self.more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk, self.more = message.get("body", b""), message.get("more_body", False)
            self._left -= len(chunk)
            self.too_large = self.too_large or self._left < 0
            if self.too_large:
                self.chunks.clear()
            else:
                self.chunks.append(chunk)


class SlowBodies:
    """Counts the requests whose bodies arrive slowly: at most half of the open ones, so that others are answered."""

    def __init__(self, limits: RequestLimits) -> None:
        self._most = max(1, limits.concurrent // 2)
        self._count = 0

    def __enter__(self) -> None:
        if self._count >= self._most:
            detail = f"{self._most} bodies are arriving slowly already; send the body in one piece, or try again later."
            raise ProblemError("too-many-requests", detail, headers={"Retry-After": "1", **_CLOSE})
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1


def _too_large(limits: RequestLimits) -> ProblemError:
    detail = f"A body may have at most {limits.body_bytes:,} bytes; send the texts in several requests."
    return ProblemError("body-too-large", detail, headers=_CLOSE)
