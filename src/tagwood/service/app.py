"""`create_app`: the service as an ASGI app. In: model folders or a fitted Tagger, and settings. Out: a FastAPI app.

This is the app of one worker process. `ROUTES` lists the endpoints; `SecurityMiddleware` checks every request before
them, and the files of the web page are served for all other paths.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from os import PathLike, stat_result
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from tagwood.errors import InputError
from tagwood.service import schemas
from tagwood.service.observability import EventLog, ServiceMetrics
from tagwood.service.problems import (
    MEDIA_TYPE,
    PROBLEMS,
    ProblemError,
    from_input_error,
    from_validation,
    problem_response,
)
from tagwood.service.routes import annif, filters, groups, labels, model, progress, reconcile, texts
from tagwood.service.security import JsonResponse, JsonRoute, SecurityMiddleware, SlowBodies
from tagwood.service.settings import ServedModel, ServiceSettings
from tagwood.service.state import LoadedModel, ModelHolder, ServiceState
from tagwood.tagger import LabelCard, Tagger, TreeView

STATIC = Path(__file__).parent / "static"


class Endpoint(NamedTuple):
    """Method and path of a request, the function that answers, and the form of its answer."""

    method: str
    path: str
    function: Callable[..., Any]
    answer: Any  # a pydantic model, a dataclass, or the media type of a text
    tag: str
    status: int = 200


_RECONCILE = "/v1/projects/{project_id}/reconcile"

ROUTES = (
    Endpoint("POST", "/v1/suggest", texts.suggest, schemas.SuggestResponse, "texts"),
    Endpoint("POST", "/v1/explain", texts.explain, schemas.ExplainResponse, "texts"),
    Endpoint("POST", "/v1/feedback", texts.feedback, schemas.StoredRecords, "texts", 201),
    Endpoint("POST", "/v1/learn", texts.learn, schemas.LearnResponse, "texts"),
    Endpoint("GET", "/v1/labels", labels.labels, schemas.LabelsResponse, "labels"),
    Endpoint("GET", "/v1/labels/{label}", labels.label, LabelCard, "labels"),
    Endpoint("GET", "/v1/tree", labels.tree, TreeView, "labels"),
    Endpoint("GET", "/v1/filters", filters.filters, schemas.FiltersResponse, "filters"),
    Endpoint("PUT", "/v1/filters/{name}", filters.put_filter, schemas.FilterResponse, "filters"),
    Endpoint("GET", "/v1/filters/{name}", filters.show_filter, schemas.FilterResponse, "filters"),
    Endpoint("DELETE", "/v1/filters/{name}", filters.delete_filter, schemas.FilterSummary, "filters"),
    Endpoint("GET", "/v1/model", model.model, schemas.ModelResponse, "model"),
    Endpoint("GET", "/v1/progress", progress.progress, schemas.ProgressResponse, "texts"),
    Endpoint("GET", "/v1/queue", progress.queue, schemas.QueueResponse, "texts"),
    Endpoint("GET", "/v1/groups", groups.groups, schemas.GroupsResponse, "groups"),
    Endpoint("GET", "/v1/groups/{group}", groups.group, schemas.GroupResponse, "groups"),
    Endpoint("POST", "/v1/groups/{group}/corrections", groups.correct, schemas.StoredRecords, "groups", 201),
    Endpoint("GET", "/v1/corrections", groups.corrections, "application/x-ndjson", "groups"),
    Endpoint("GET", "/v1/", annif.info, annif.AnnifInfo, "annif"),
    Endpoint("GET", "/v1/vocabs", annif.vocabs, annif.AnnifVocabularies, "annif"),
    Endpoint("GET", "/v1/projects", annif.projects, annif.AnnifProjects, "annif"),
    Endpoint("GET", "/v1/projects/{project_id}", annif.project, annif.AnnifProject, "annif"),
    Endpoint("POST", "/v1/projects/{project_id}/suggest", annif.suggest, annif.AnnifSuggestions, "annif"),
    Endpoint(
        "POST",
        "/v1/projects/{project_id}/suggest-batch",
        annif.suggest_batch,
        list[annif.AnnifDocumentSuggestions],
        "annif",
    ),
    Endpoint("POST", "/v1/projects/{project_id}/learn", annif.learn, None, "annif", 204),
    Endpoint("POST", "/v1/detect-language", annif.detect, annif.AnnifLanguages, "annif"),
    Endpoint("GET", f"{_RECONCILE}", reconcile.manifest, dict[str, Any], "reconciliation"),
    Endpoint("POST", f"{_RECONCILE}", reconcile.reconcile, dict[str, reconcile.ReconcileResult], "reconciliation"),
    Endpoint(
        "GET",
        f"{_RECONCILE}/suggest/entity",
        reconcile.suggest_entity,
        reconcile.SuggestedEntities,
        "reconciliation",
    ),
    Endpoint("GET", f"{_RECONCILE}/preview", reconcile.preview, "text/html", "reconciliation"),
    Endpoint("GET", f"{_RECONCILE}/view", reconcile.view, "text/html", "reconciliation"),
    Endpoint("GET", "/health", model.health, schemas.HealthResponse, "operations"),
    Endpoint("GET", "/ready", model.ready, schemas.ReadyResponse, "operations"),
    Endpoint("GET", "/metrics", model.metrics, "text/plain", "operations"),
)


def create_app(
    model: str | PathLike[str] | Tagger | Mapping[str, ServedModel],
    settings: ServiceSettings | None = None,
    *,
    metrics: ServiceMetrics | None = None,
    log: EventLog | None = None,
) -> FastAPI:
    """Return the service as an ASGI app.

    A model folder is loaded when the app starts and checked for changes; a fitted Tagger stays in use. Several models
    are given by the ids of their projects, and feedback is stored as each of them says. `metrics` are counts shared
    with other workers; default: own counts, and no log.

    Examples
    --------
    >>> tagger = Tagger().fit(["oak wood", "sea water"] * 3, [["tree"], ["water"]] * 3)
    >>> sorted(create_app(tagger).openapi()["paths"])[:3]
    ['/health', '/metrics', '/ready']
    """
    settings = settings or ServiceSettings()
    served = _served(model)
    metrics = metrics or ServiceMetrics.in_memory(served)
    log = log or EventLog(file=None)
    app = FastAPI(title="tagwood", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan)
    app.state.projects = _projects(served, settings, metrics, log)
    app.state.settings = settings
    app.state.slow_bodies = SlowBodies(settings.limits)
    for endpoint in ROUTES:
        _add(app, endpoint)
    app.add_api_route("/openapi.json", _openapi, methods=["GET"], include_in_schema=False)
    app.router.default = PageFiles(directory=STATIC, html=True)
    handlers: dict[Any, Any] = {
        ProblemError: lambda error: error,
        RequestValidationError: lambda error: from_validation(error.errors()),
        HTTPException: _from_http,
        InputError: from_input_error,
    }
    for error, convert in handlers.items():
        app.add_exception_handler(error, _handler(convert))
    document: dict[str, Any] = {}
    app.openapi = lambda: document or document.update(make_openapi(app, settings)) or document  # type: ignore[method-assign]
    app.add_middleware(SecurityMiddleware, settings=settings, metrics=metrics, log=log, service=app)
    return app


class PageFiles(StaticFiles):
    """The files of the web page; browsers revalidate them, so that an update is seen at once."""

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return the response for a file."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _holder(model: str | PathLike[str] | Tagger, settings: ServiceSettings) -> ModelHolder:
    def load(folder: Path) -> LoadedModel:
        tagger, manifest = Tagger.load_with_manifest(folder)
        return LoadedModel.of(tagger, manifest, threads=settings.threads, run_folder=settings.run_folder)

    if isinstance(model, Tagger):
        return ModelHolder(load, None, LoadedModel.of(model, threads=settings.threads))
    return ModelHolder(load, Path(model))


def _served(
    model: str | PathLike[str] | Tagger | Mapping[str, ServedModel],
) -> Mapping[str, str | PathLike[str] | Tagger | ServedModel]:
    """Return what is served by the ids of projects: the name of the model folder, if nothing else is given."""
    if isinstance(model, Mapping):
        return model
    return {"model" if isinstance(model, Tagger) else Path(model).absolute().name: model}


def _projects(
    models: Mapping[str, str | PathLike[str] | Tagger | ServedModel],
    settings: ServiceSettings,
    metrics: ServiceMetrics,
    log: EventLog,
) -> dict[str, ServiceState]:
    """Return the state of each project."""
    states = {}
    for name, served in models.items():
        if not isinstance(served, ServedModel):
            states[name] = ServiceState(settings, _holder(served, settings), metrics, log, project=name)
            continue
        shared = None if settings.run_folder is None else settings.run_folder / name
        own = replace(settings, feedback=served.feedback, corrections=served.corrections, run_folder=shared)
        second = None if served.candidate is None else _holder(served.candidate.folder, own)
        about: dict[str, Any] = {"language": served.language, "candidate": served.candidate}
        holder = _holder(served.folder, own)
        states[name] = ServiceState(own, holder, metrics, log, project=name, candidate_holder=second, **about)
    return states


def _add(app: FastAPI, endpoint: Endpoint) -> None:
    options: dict[str, Any] = {"response_model": endpoint.answer, "response_class": JsonResponse}
    if isinstance(endpoint.answer, str):
        content = {endpoint.answer: {"schema": {"type": "string"}}}
        responses = {200: {"content": content, "description": "Lines of text"}}
        options = {"response_model": None, "response_class": Response, "responses": responses}
    app.router.add_api_route(
        endpoint.path,
        endpoint.function,
        methods=[endpoint.method],
        status_code=endpoint.status,
        tags=[endpoint.tag],
        route_class_override=JsonRoute if endpoint.method in ("POST", "PUT") else None,
        **options,
    )
    if endpoint.method == "GET":  # load balancers ask with HEAD
        app.router.add_api_route(endpoint.path, endpoint.function, methods=["HEAD"], include_in_schema=False, **options)


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    states: list[ServiceState] = list(app.state.projects.values())
    for state in states:
        state.open()
        await state.refresh()
    watching = [asyncio.create_task(state.watch()) for state in states if state.settings.reload_seconds]
    try:
        yield
    finally:
        for task in watching:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for state in states:
            state.close()


def _handler(convert: Callable[[Any], ProblemError]) -> Callable[[Request, Any], Any]:
    """Return an exception handler that answers with a problem."""

    async def handle(request: Request, error: Any) -> Response:
        return problem_response(convert(error), request.scope["request_id"])

    return handle


def _from_http(error: HTTPException) -> ProblemError:
    kind, detail = {
        404: ("not-found", "See /openapi.json for the paths of this service."),
        405: ("method-not-allowed", "See the header Allow for the methods of this path."),
    }.get(error.status_code, ("invalid-request", "The request is not valid."))
    return ProblemError(kind, detail, headers=dict(error.headers or {}))


_SUMMARY = "Suggest labels for texts, explain them, browse labels and tree, and store feedback."
_ALWAYS = (
    *("invalid-request", "not-found", "method-not-allowed", "ambiguous-host"),
    *("too-many-requests", "headers-too-large", "internal"),
)
_OF_ONE_PROJECT = {route.path for route in ROUTES if route.tag in ("texts", "labels", "filters", "model", "groups")}
_WITH_BODY = ("invalid-json", "timeout", "conflict", "body-too-large", "unsupported-type")


async def _openapi(request: Request) -> Response:
    return JsonResponse(request.app.openapi())


def make_openapi(app: FastAPI, settings: ServiceSettings) -> dict[str, Any]:
    """Return the OpenAPI document: FastAPI's, with the problems and limits that it does not know."""
    document: dict[str, Any] = get_openapi(
        title="tagwood", version="1", summary=_SUMMARY, routes=app.routes, openapi_version="3.1.0"
    )
    components = document["components"]["schemas"]
    problem = schemas.ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    components |= {**problem.pop("$defs"), "ProblemDetails": problem}
    for unused in ("HTTPValidationError", "ValidationError"):
        components.pop(unused, None)
    projects = list(app.state.projects)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _add_problems(operation, path, settings)
            _add_projects(operation, path, projects)
    _add_limits(components, settings)
    if settings.token is not None:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return document


def _add_problems(operation: dict[str, Any], path: str, settings: ServiceSettings) -> None:
    kinds = [*_ALWAYS, *(_WITH_BODY if "requestBody" in operation else ())]
    if path != "/health":
        kinds.append("not-ready")
    if "/projects/" in path or path == "/v1/detect-language":
        kinds.append("bad-request")
    if "requestBody" in operation and path.endswith(("/feedback", "/corrections", "/learn", "/filters/{name}")):
        kinds.append("not-stored")
    if "corrections" in path or path in ("/v1/progress", "/v1/queue"):
        kinds.append("conflict")
    if settings.hosts:
        kinds.append("forbidden-host")
    if settings.token is not None and path.startswith(("/v1", "/metrics")):
        kinds.append("unauthorized")
        operation["security"] = [{"token": []}]
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    for kind in kinds:
        status, title = PROBLEMS[kind]
        operation["responses"][str(status)] = {"description": title, "content": content}


def _add_projects(operation: dict[str, Any], path: str, projects: list[str]) -> None:
    """Write the ids of projects into the parameters of their requests, and that forms are accepted."""
    for parameter in operation.get("parameters", []):
        if parameter["name"] == "project_id":
            parameter["schema"]["enum"] = projects
    if len(projects) > 1 and path in _OF_ONE_PROJECT:
        schema = {"type": "string", "enum": projects}
        about = {"description": "Id of the project; default: the first.", "required": False}
        operation.setdefault("parameters", []).append({"name": "project", "in": "query", **about, "schema": schema})
    if path in ("/v1/projects/{project_id}/suggest", _RECONCILE) and "requestBody" in operation:
        content = operation["requestBody"]["content"]
        content["application/x-www-form-urlencoded"] = content["application/json"]


def _add_limits(components: dict[str, Any], settings: ServiceSettings) -> None:
    """Write the operator's limits into the schemas of requests."""
    limits = settings.limits
    for name in ("SuggestRequest", "ExplainRequest"):
        components[name]["properties"]["k"]["maximum"] = limits.k
    one, many = components["SuggestRequest"]["properties"]["texts"]["anyOf"]
    one["maxLength"] = limits.text_chars
    many |= {"minItems": 1, "maxItems": limits.texts}
    many["items"]["maxLength"] = limits.text_chars
    for name in ("ExplainRequest", "FeedbackRequest"):
        components[name]["properties"]["text"]["maxLength"] = limits.text_chars
    components["SuggestRequest"]["properties"]["fields"]["anyOf"][1] |= {"minItems": 1, "maxItems": limits.texts}
    for name, fields in {
        "SuggestRequest": ("restrict", "exclude"),
        "FeedbackRequest": ("accepted", "rejected", "added", "untouched"),
        "SampleLabels": ("labels",),
    }.items():
        for field in fields:
            schema = components[name]["properties"][field]
            listed = next((part for part in schema.get("anyOf", []) if part.get("type") == "array"), schema)
            listed["maxItems"] = limits.labels
