"""Errors as problem+json (RFC 9457). In: our errors and pydantic's. Out: responses without paths or tracebacks.

`PROBLEMS` is the one table of what can go wrong: kind -> status and title. A `ProblemError` names a kind and adds what
happened here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from starlette.responses import Response

from tagwood.errors import DataError, InputError, StorageError


class Kind(NamedTuple):
    """Status and title of a kind of problem."""

    status: int
    title: str


PROBLEMS: dict[str, Kind] = {
    "invalid-json": Kind(400, "The body is not JSON"),
    "invalid-request": Kind(422, "The request does not fit"),
    "unauthorized": Kind(401, "A bearer token is needed"),
    "forbidden-host": Kind(421, "This host name is not served here"),
    "not-found": Kind(404, "There is nothing here"),
    "unknown-label": Kind(404, "The label is not in the vocabulary"),
    "method-not-allowed": Kind(405, "This method is not allowed here"),
    "timeout": Kind(408, "The body took too long"),
    "conflict": Kind(409, "This model cannot do that"),
    "body-too-large": Kind(413, "The body is too large"),
    "unsupported-type": Kind(415, "The body must be JSON"),
    "too-many-requests": Kind(429, "Too many requests at once"),
    "headers-too-large": Kind(431, "The headers are too large"),
    "internal": Kind(500, "Something went wrong here"),
    "not-ready": Kind(503, "No model is loaded yet"),
    "not-stored": Kind(507, "The record could not be stored"),
}
MEDIA_TYPE = "application/problem+json"
_LONGEST = 500


class Part(NamedTuple):
    """One fault of a request: where and what."""

    pointer: str
    detail: str


class ProblemError(Exception):
    """A request that cannot be answered.

    Parameters
    ----------
    kind
        A key of `PROBLEMS`.
    detail
        What happened here, and what to do.
    parts
        Where in the request.
    headers
        Further headers of the response.
    """

    def __init__(
        self, kind: str, detail: str, parts: Sequence[Part] = (), headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.parts = tuple(parts)
        self.headers = headers or {}

    @property
    def status(self) -> int:
        """HTTP status."""
        return PROBLEMS[self.kind].status


def problem_response(problem: ProblemError, request_id: str) -> Response:
    """Return a problem as a response."""
    kind = PROBLEMS[problem.kind]
    content = {
        "type": f"urn:tagwood:problem:{problem.kind}",
        "title": kind.title,
        "status": kind.status,
        "detail": problem.detail[:_LONGEST],
        "errors": [part._asdict() for part in problem.parts[:20]],
        "request_id": request_id,
    }
    return Response(orjson.dumps(content), kind.status, problem.headers, MEDIA_TYPE)


def from_validation(errors: Sequence[Any], *, where: str = "") -> ProblemError:
    """Return what pydantic found as a problem; the values themselves are not repeated.

    Examples
    --------
    >>> from_validation([{"loc": ("k",), "msg": "Input should be at least 1"}]).detail
    'k: Input should be at least 1'
    """
    parts = [Part(_pointer(error["loc"], where), str(error["msg"])) for error in errors]
    first = parts[0]
    place = first.pointer.removeprefix("#/")
    return ProblemError("invalid-request", f"{place}: {first.detail}" if place else first.detail, parts)


def from_input_error(error: InputError) -> ProblemError:
    """Return an error of the toolkit as a problem; those that could name files are not repeated."""
    if isinstance(error, StorageError | DataError):
        return ProblemError("internal", "The model's data could not be read; the log says more.")
    return ProblemError("invalid-request", str(error))


def _pointer(loc: Sequence[str | int], where: str) -> str:
    # pydantic adds names of the tried types behind the field; those of unions are of no use to the reader.
    shown = [str(step) for step in loc if not (isinstance(step, str) and (step in _TYPES or "[" in step))]
    if shown and shown[0] in ("query", "path", "header"):
        return ".".join(shown)
    return "#/" + "/".join([*([where] if where else []), *shown])


_TYPES = {"str", "int", "float", "constrained-str", "constrained-int", "body"}
