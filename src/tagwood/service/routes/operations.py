"""Routes for those who run the service: health, readiness, counts. In: nothing. Out: short answers."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tagwood.service.security import JsonResponse
from tagwood.service.state import state_of


async def health(request: Request) -> Response:
    """Say that the process runs."""
    return JsonResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """Say whether a model is loaded; 503 until then."""
    return JsonResponse({"status": "ready", "model": state_of(request).holder.current.name})


async def metrics(request: Request) -> Response:
    """Return the counts of all workers in Prometheus' text format."""
    return PlainTextResponse(state_of(request).telemetry.text(), media_type="text/plain; version=0.0.4")
