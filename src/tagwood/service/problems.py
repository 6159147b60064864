"""Errors as problem details (RFC 9457). In: our errors and pydantic's. Out: responses without paths or tracebacks.

`PROBLEMS` lists every kind of problem with its status and title. A `ProblemError` names a kind and adds the details of
the request at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from starlette.responses import Response

from tagwood.errors import DataError, InputError, StorageError

PROBLEMS: dict[str, tuple[int, str]] = {
    "invalid-json": (400, "The body is not valid JSON"),
    "bad-request": (400, "Bad Request"),
    "invalid-request": (422, "The request is not valid"),
    "unauthorized": (401, "A bearer token is required"),
    "ambiguous-host": (400, "The request has more than one Host header"),
    "forbidden-host": (421, "This host name is not accepted"),
    "not-found": (404, "Not found"),
    "unknown-label": (404, "The label is not in the vocabulary"),
    "unknown-filter": (404, "There is no such filter"),
    "damaged-filter": (404, "The file of the filter is damaged"),
    "method-not-allowed": (405, "The method is not allowed"),
    "timeout": (408, "The body took too long to arrive"),
    "conflict": (409, "This service cannot do that"),
    "body-too-large": (413, "The body is too large"),
    "unsupported-type": (415, "The body must be JSON"),
    "too-many-requests": (429, "Too many open requests"),
    "headers-too-large": (431, "The headers are too large"),
    "internal": (500, "Internal error"),
    "not-ready": (503, "No model is loaded yet"),
    "not-stored": (507, "The record could not be stored"),
}
MEDIA_TYPE = "application/problem+json"
_MAX_DETAIL = 500
_MAX_ERRORS = 20
# Types of pydantic's errors: those about the type of a value, and what they expected; and others, and what to say.
_KINDS = {
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "bool_type": "true or false",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number",
    "multiple_of": "a whole number",
}
_RULES = {
    "missing": "is required.",
    "extra_forbidden": "is not a field of this request; see /openapi.json for its fields.",
    "greater_than_equal": "must be at least {ge}.",
    "less_than_equal": "must be at most {le}.",
    "string_too_short": "must have at least {min_length} character(s).",
    "string_too_long": "may have at most {max_length} characters.",
    "too_short": "must have at least {min_length} item(s).",
    "too_long": "may have at most {max_length} items.",
    "literal_error": "must be {expected}.",
    "int_parsing": "must be a whole number.",
    "float_parsing": "must be a number.",
    "string_pattern_mismatch": "must match the pattern {pattern}",
}
_SHOWN_NUMBER = 2**53
# pydantic appends the names of the types that it tried; they do not help the caller.
_TYPES = {"str", "int", "float", "constrained-str", "constrained-int", "body"}


class FieldError(NamedTuple):
    """One invalid field of a request: where it is, and what is wrong."""

    pointer: str
    detail: str


class ProblemError(Exception):
    """A request that cannot be answered.

    `kind` is a key of `PROBLEMS`, `detail` describes what is wrong with this request and what to do, `errors` are the
    invalid fields, and `headers` further headers of the response.
    """

    def __init__(
        self, kind: str, detail: str, errors: Sequence[FieldError] = (), headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = headers or {}

    @classmethod
    def at(cls, pointer: str, detail: str, kind: str = "invalid-request") -> ProblemError:
        """Return the problem of one field."""
        return cls(kind, detail, [FieldError(pointer, detail)])


def problem_response(problem: ProblemError, request_id: str, status: int | None = None) -> Response:
    """Return a problem as a response; `status` replaces the usual status of its kind."""
    usual, title = PROBLEMS[problem.kind]
    status = status or usual
    content = {
        "type": f"urn:tagwood:problem:{problem.kind}",
        "title": title,
        "status": status,
        "detail": problem.detail[:_MAX_DETAIL],
        "errors": [error._asdict() for error in problem.errors[:_MAX_ERRORS]],
        "request_id": request_id,
    }
    return Response(orjson.dumps(content), status, problem.headers, MEDIA_TYPE)


def from_validation(errors: Sequence[Any]) -> ProblemError:
    """Return pydantic's errors as a problem, one for each invalid field; invalid texts are not repeated."""
    groups: dict[str, list[Any]] = {}
    for error in errors:
        groups.setdefault(_pointer(error["loc"]), []).append(error)
    # A value of several possible types has an error for each; where a part of it is wrong, its type is right.
    found = [
        FieldError(pointer, _message(group))
        for pointer, group in groups.items()
        if not (_is_kind(group) and any(other.startswith(f"{pointer}/") for other in groups))
    ]
    first = found[0]
    place = first.pointer.removeprefix("#").removeprefix("/")
    return ProblemError("invalid-request", f"{place}: {first.detail}" if place else f"The body {first.detail}", found)


def from_input_error(error: InputError) -> ProblemError:
    """Return an error of the toolkit as a problem; messages that could contain file names are not repeated."""
    if isinstance(error, StorageError | DataError):
        return ProblemError("internal", "The files of the model could not be read; see the log of the service.")
    return ProblemError("invalid-request", str(error))


def _is_kind(group: Sequence[Any]) -> bool:
    """Whether all errors of a value are about its type."""
    return all(error["type"] in _KINDS for error in group)


def _message(group: Sequence[Any]) -> str:
    """Return what is wrong with a value, from its errors for each type that it may have."""
    if not _is_kind(group):
        error = next(one for one in group if one["type"] not in _KINDS)  # it is of the right type
        rule = _RULES.get(error["type"])
        return f"{error['msg']}." if rule is None else rule.format(**error.get("ctx", {}))
    kinds = list(dict.fromkeys(_KINDS[error["type"]] for error in group))
    if "a whole number" in kinds and "a number" in kinds:
        kinds.remove("a number")
    expected = " or ".join(kinds)
    given = group[0].get("input")
    return f"must be {expected}; got {_kind_of(given)}.{_hint(expected, given)}"


def _kind_of(value: Any) -> str:
    """Return what a value is; a number, true, false and null as they are."""
    if value is None or isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < _SHOWN_NUMBER):
        return orjson.dumps(value).decode()
    kinds = {str: "a text", list: "a list", dict: "an object", int: "a large number", float: "a large number"}
    return kinds.get(type(value), "something else")


def _hint(expected: str, given: Any) -> str:
    if expected == "a list" and isinstance(given, str | int | float):
        return " Put it in brackets: [...]."
    if expected in ("a number", "a whole number") and isinstance(given, str):
        return " Write numbers without quotes."
    return " Put it in quotes." if expected == "a text" and isinstance(given, int | float) else ""


def _pointer(loc: Sequence[str | int]) -> str:
    shown = [str(step) for step in loc if not (isinstance(step, str) and (step in _TYPES or "[" in step))]
    if shown and shown[0] in ("query", "path", "header"):
        return ".".join(shown)
    return "#" + "".join(f"/{step}" for step in shown)
