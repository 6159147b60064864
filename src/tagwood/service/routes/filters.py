"""Endpoints about named label filters. In: labels. Out: facts about the stored filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from tagwood.service.filters import NAME, known_labels, lasting_names
from tagwood.service.problems import ProblemError
from tagwood.service.schemas import FilterRequest
from tagwood.service.security import JsonResponse
from tagwood.service.state import LoadedModel, ServiceState, state_of

FilterName = Annotated[str, Path(pattern=f"^{NAME.pattern}$", description="Name of the filter.", examples=["in-stock"])]


async def put_filter(request: Request, body: FilterRequest, name: FilterName) -> Any:
    """Store a set of labels under a name; a request for suggestions can then use it as one of its `filters`.

    A new version replaces the old one in one step, for all workers. Labels are kept by their ids, URIs or names, and
    looked up again in a later model; those that it does not know are left out.
    """
    state = state_of(request)
    loaded = state.holder.current
    found = await state.in_thread(known_labels, loaded.tagger.vocab_, body.labels)
    if found.n_unknown and body.unknown == "error":
        raise await state.in_thread(_unknown, loaded, body.labels, found.n_unknown)
    labels = await state.in_thread(lasting_names, loaded.tagger.vocab_, body.labels)
    facts = await state.in_thread(state.filters.put, name, labels)
    return {**facts._asdict(), "known": len(found), "unknown": found.n_unknown}


async def filters(request: Request) -> Response:
    """List the filters."""
    state = state_of(request)
    listed = await state.in_thread(state.filters.all)
    return JsonResponse({"filters": [facts._asdict() for facts in listed]})


async def show_filter(request: Request, name: FilterName) -> Response:
    """Show a filter: its version, and how many of its labels the model knows."""
    state = state_of(request)
    return JsonResponse(await state.in_thread(_counted, state, state.holder.current, name))


async def delete_filter(request: Request, name: FilterName) -> Response:
    """Delete a filter; requests that name it are refused from then on."""
    state = state_of(request)
    facts = await state.in_thread(state.filters.delete, name)
    return JsonResponse(facts._asdict())


def _counted(state: ServiceState, loaded: LoadedModel, name: str) -> dict[str, Any]:
    facts, found = state.filters.get(name), state.filters.filter_of(loaded.tagger, [name])
    return {**facts._asdict(), "known": len(found), "unknown": found.n_unknown}


def _unknown(loaded: LoadedModel, labels: Sequence[str | int], n_unknown: int) -> ProblemError:
    """Return the problem that labels are unknown, which names the first of them."""
    place = int(np.argmin(loaded.tagger.vocab_.find_many(labels)))  # unknown ones are -1, which is the least
    first, hint = labels[place], ""
    if isinstance(first, str):
        first, hint = first[:100], loaded.did_you_mean(first)
    detail = (
        f"{n_unknown:,} of {len(labels):,} labels are unknown, the first is {first!r}.{hint} "
        "Send unknown='ignore' to leave them out."
    )
    return ProblemError.at(f"#/labels/{place}", detail, "unknown-label")
