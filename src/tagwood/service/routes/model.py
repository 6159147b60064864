"""Endpoints about the model and the running service. In: nothing. Out: facts, health, metrics."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from tagwood.service.learning import can_learn
from tagwood.service.security import JsonResponse
from tagwood.service.state import state_of


async def model(request: Request) -> Response:
    """Describe the model, its quality, and the limits of requests."""
    state = state_of(request)
    loaded = await state.up_to_date()
    facts = await state.in_thread(lambda: loaded.facts)
    groups = loaded.groups
    service = {
        "groups": None if groups is None else len(groups),
        "feedback": state.feedback is not None,
        "queue": state.queue is not None,
        "learn": state.learning is not None and can_learn(loaded.tagger),
        "traffic": state.traffic.facts(),
        "limits": state.settings.limits,
    }
    return JsonResponse({**facts, **service})


async def health(request: Request) -> Response:
    """Report that the process runs."""
    return JsonResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """Report whether a model is loaded; 503 until then."""
    return JsonResponse({"status": "ready", "model": state_of(request).holder.current.name})


async def metrics(request: Request) -> Response:
    """Return the counts of all workers in the text format of Prometheus."""
    # Not in the threads of the state, where it would wait for long batches.
    return Response(await asyncio.to_thread(state_of(request).metrics.text), media_type="text/plain; version=0.0.4")
