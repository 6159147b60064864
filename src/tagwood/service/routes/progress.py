"""Endpoints about correcting: how often people agreed, and which texts wait. In: query parameters. Out: JSON values."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from tagwood.service.problems import ProblemError
from tagwood.service.progress import summarise
from tagwood.service.routes.labels import LanguageQuery
from tagwood.service.security import JsonResponse
from tagwood.service.state import state_of


async def progress(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="Largest number of labels.")] = 50,
    language: LanguageQuery = None,
) -> Response:
    """Show how often people agreed with suggestions: over time, and by label, most corrected labels first."""
    state = state_of(request)
    loaded = state.holder.current
    if state.feedback is None:
        raise ProblemError("conflict", "This service was started without a file for feedback.")
    journal, vocab, chosen = state.feedback, loaded.tagger.vocab_, loaded.language(language)
    found = await state.in_thread(lambda: summarise(journal.read(), vocab, chosen, limit))
    return JsonResponse({**found, "model": loaded.name})


async def queue(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Response:
    """List texts that wait for review, least certain first; texts with feedback are left out."""
    state = state_of(request)
    loaded = state.holder.current
    if state.queue is None or state.feedback is None:
        detail = "This service was started without texts to review; the operator can name a file: --queue FILE."
        raise ProblemError("conflict", detail)
    waiting, journal = state.queue, state.feedback
    left, done = await state.in_thread(lambda: waiting.waiting(loaded.tagger, loaded.name, journal.read()))
    texts = [one._asdict() for one in left[:limit]]
    return JsonResponse({"waiting": len(left), "done": done, "texts": texts, "model": loaded.name})
