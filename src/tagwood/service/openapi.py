"""The OpenAPI document: what FastAPI makes from the routes, with the problems and limits that it cannot know.

In: the app and its limits. Out: a JSON document that a client can rely on.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from tagwood.service.problems import MEDIA_TYPE, PROBLEMS
from tagwood.service.schemas import Problem
from tagwood.service.settings import Settings

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
