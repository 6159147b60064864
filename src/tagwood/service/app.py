"""`create_app`: the service as an ASGI app. In: a model folder or a fitted Tagger, and settings. Out: a FastAPI app.

The app of one worker process. Routes are listed in `ROUTES`; `Guard` stands before them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from tagwood.errors import InputError
from tagwood.service import schemas
from tagwood.service import schemas as schemas_browse
from tagwood.service.loaded import Loaded, ModelHolder
from tagwood.service.observability import Log, Telemetry
from tagwood.service.problems import (
    MEDIA_TYPE,
    PROBLEMS,
    ProblemError,
    from_input_error,
    from_validation,
    problem_response,
)
from tagwood.service.routes import browse as routes_browse
from tagwood.service.routes import groups as routes_groups
from tagwood.service.routes import operations as routes_operations
from tagwood.service.routes import suggest as routes_suggest
from tagwood.service.schemas import Problem
from tagwood.service.security import Guard, JsonResponse, JsonRoute
from tagwood.service.settings import Settings
from tagwood.service.state import ServiceState
from tagwood.tagger import Tagger

# SECTION service.openapi
# The OpenAPI document: what FastAPI makes from the routes, with the problems and limits that it cannot know.
#
# In: the app and its limits. Out: a JSON document that a client can rely on.


_ALWAYS = (
    "invalid-request",
    "not-found",
    "method-not-allowed",
    "too-many-requests",
    "headers-too-large",
    "internal",
)
_WITH_BODY = ("invalid-json", "timeout", "conflict", "body-too-large", "unsupported-type")
_SUMMARY = "Suggest labels for texts, explain them, browse labels and tree, and take feedback."


def make_openapi(app: FastAPI, settings: Settings) -> dict[str, Any]:
    """Return the document of a service."""
    document: dict[str, Any] = get_openapi(
        title="tagwood", version="1", summary=_SUMMARY, routes=app.routes, openapi_version="3.1.0"
    )
    schemas = document["components"]["schemas"]
    schemas |= _problem_schemas()
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _add_problems(operation, path, settings)
    _add_limits(schemas, settings)
    if settings.token is not None:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return document


def _problem_schemas() -> dict[str, Any]:
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs"), "Problem": schema}


def _add_problems(operation: dict[str, Any], path: str, settings: Settings) -> None:
    kinds = [*_ALWAYS, *(_WITH_BODY if "requestBody" in operation else ())]
    if path != "/health":
        kinds.append("not-ready")
    if "requestBody" in operation and path not in {"/v1/suggest", "/v1/explain"}:
        kinds.append("not-stored")
    if "corrections" in path:
        kinds.append("conflict")
    if settings.hosts:
        kinds.append("forbidden-host")
    if settings.token is not None and path.startswith(("/v1", "/metrics")):
        kinds.append("unauthorized")
        operation["security"] = [{"token": []}]
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for kind in kinds:
        status, title = PROBLEMS[kind]
        operation["responses"][str(status)] = {"description": title, "content": content}


def _add_limits(schemas: dict[str, Any], settings: Settings) -> None:
    """Write the operator's limits into the schemas of requests."""
    limits = settings.limits
    for name in ("SuggestRequest", "ExplainRequest"):
        schemas[name]["properties"]["k"]["maximum"] = limits.k
    one, many = schemas["SuggestRequest"]["properties"]["texts"]["anyOf"]
    one["maxLength"] = limits.text_chars
    many |= {"minItems": 1, "maxItems": limits.texts}
    many["items"]["maxLength"] = limits.text_chars
    for name in ("ExplainRequest", "FeedbackRequest"):
        schemas[name]["properties"]["text"]["maxLength"] = limits.text_chars
    for name, fields in {
        "SuggestRequest": ("restrict", "exclude"),
        "FeedbackRequest": ("accepted", "rejected", "added"),
        "SampleLabels": ("labels",),
    }.items():
        for field in fields:
            schema = schemas[name]["properties"][field]
            listed = next((part for part in schema.get("anyOf", []) if part.get("type") == "array"), schema)
            listed["maxItems"] = limits.labels


# SECTION service.pages
# `StaticPages`: the web page's files, from one folder and nothing else. In: a path. Out: a file, or 404.


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


STATIC = Path(__file__).parent / "static"


class Route(NamedTuple):
    """A route: method, path, what answers, and the form of the answer."""

    method: str
    path: str
    endpoint: Callable[..., Any]
    answer: type[BaseModel] | None
    tag: str
    status: int = 200


ROUTES = (
    Route("POST", "/v1/suggest", routes_suggest.suggest, schemas.SuggestResponse, "texts"),
    Route("POST", "/v1/explain", routes_suggest.explain, schemas.ExplainResponse, "texts"),
    Route("POST", "/v1/feedback", routes_suggest.feedback, schemas.Stored, "texts", 201),
    Route("GET", "/v1/labels", routes_browse.labels, schemas_browse.LabelsResponse, "labels"),
    Route("GET", "/v1/labels/{label}", routes_browse.label, schemas_browse.LabelCard, "labels"),
    Route("GET", "/v1/tree", routes_browse.tree, schemas_browse.TreeResponse, "labels"),
    Route("GET", "/v1/model", routes_browse.model, schemas_browse.ModelResponse, "model"),
    Route("GET", "/v1/groups", routes_groups.groups, schemas_browse.GroupsResponse, "groups"),
    Route("GET", "/v1/groups/{group}", routes_groups.group, schemas_browse.GroupResponse, "groups"),
    Route("POST", "/v1/groups/{group}/corrections", routes_groups.correct, schemas.Stored, "groups", 201),
    Route("GET", "/v1/corrections", routes_groups.corrections, None, "groups"),
    Route("GET", "/health", routes_operations.health, schemas.Health, "operations"),
    Route("GET", "/ready", routes_operations.ready, schemas.Ready, "operations"),
    Route("GET", "/metrics", routes_operations.metrics, None, "operations"),
)
_TEXT_ANSWERS = {"/v1/corrections": "application/x-ndjson", "/metrics": "text/plain"}


def create_app(
    model: str | PathLike[str] | Tagger,
    settings: Settings | None = None,
    *,
    telemetry: Telemetry | None = None,
    log: Log | None = None,
) -> FastAPI:
    """Return the service as an ASGI app.

    Parameters
    ----------
    model
        A model folder, which is loaded when the app starts and watched for changes; or a fitted Tagger.
    settings
        Limits, token, files; default `Settings()`.
    telemetry, log
        Counts shared with other workers, and where events go; default: own counts, no log.

    Examples
    --------
    >>> tagger = Tagger().fit(["oak wood", "sea water"] * 3, [["tree"], ["water"]] * 3)
    >>> sorted(create_app(tagger).openapi()["paths"])[:3]
    ['/health', '/metrics', '/ready']
    """
    settings = settings or Settings()
    telemetry = telemetry or Telemetry.alone()
    log = log or Log(file=None)
    state = ServiceState(settings, _holder(model, settings), telemetry, log)
    app = FastAPI(title="tagwood", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan)
    app.state.service = state
    app.state.settings = settings
    for route in ROUTES:
        _add(app, route)
    app.add_api_route("/openapi.json", _openapi, methods=["GET"], include_in_schema=False)
    app.router.default = StaticPages(STATIC)
    handlers: dict[Any, Any] = {
        ProblemError: _on_problem,
        RequestValidationError: _on_validation,
        HTTPException: _on_http,
        InputError: _on_input_error,
    }
    for error, handler in handlers.items():
        app.add_exception_handler(error, handler)
    document: dict[str, Any] = {}
    app.openapi = lambda: document or document.update(make_openapi(app, settings)) or document  # type: ignore[method-assign]
    app.add_middleware(Guard, settings=settings, telemetry=telemetry, log=log, owner=app)
    return app


def _holder(model: str | PathLike[str] | Tagger, settings: Settings) -> ModelHolder:
    def load(folder: Path) -> Loaded:
        return Loaded.of(Tagger.load(folder), folder, threads=settings.threads, shared=settings.index_folder)

    if isinstance(model, Tagger):
        return ModelHolder(load, None, Loaded.of(model, threads=settings.threads))
    return ModelHolder(load, Path(model))


def _add(app: FastAPI, route: Route) -> None:
    media = _TEXT_ANSWERS.get(route.path)
    options: dict[str, Any] = {"response_class": PlainTextResponse if media else JsonResponse}
    if media:
        content = {media: {"schema": {"type": "string"}}}
        options["responses"] = {200: {"content": content, "description": "Lines of text"}}
        options["response_class"] = Response
    app.router.add_api_route(
        route.path,
        route.endpoint,
        methods=[route.method],
        response_model=route.answer,
        status_code=route.status,
        tags=[route.tag],
        route_class_override=JsonRoute if route.method == "POST" else None,
        **options,
    )


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    state: ServiceState = app.state.service
    state.open()
    await state.refresh()
    watching = asyncio.create_task(state.watch()) if state.settings.reload_seconds else None
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        state.close()


async def _openapi(request: Request) -> Response:
    return JsonResponse(request.app.openapi())


async def _on_problem(request: Request, error: ProblemError) -> Response:
    return problem_response(error, request.scope["request_id"])


async def _on_validation(request: Request, error: RequestValidationError) -> Response:
    return problem_response(from_validation(error.errors()), request.scope["request_id"])


async def _on_input_error(request: Request, error: InputError) -> Response:
    return problem_response(from_input_error(error), request.scope["request_id"])


async def _on_http(request: Request, error: HTTPException) -> Response:
    kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "invalid-request")
    details = {
        "not-found": "See /openapi.json for what is here.",
        "method-not-allowed": "See the header Allow.",
    }
    problem = ProblemError(
        kind, details.get(kind, "The request does not fit."), headers=dict(error.headers or {})
    )
    return problem_response(problem, request.scope["request_id"])
