"""Routes about labels, the tree and the model. In: query parameters. Out: JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from tagwood.errors import InputError
from tagwood.service.problems import ProblemError
from tagwood.service.security import JsonResponse
from tagwood.service.state import state_of

_MOST_NODES = 2000
LabelPlace = Annotated[int, Path(ge=0, le=2**31 - 1, description="Id of the label.", examples=[0])]
LanguageQuery = Annotated[
    str | None,
    Query(max_length=35, description="Language of the label names; unknown ones give the main names."),
]


async def labels(
    request: Request,
    q: Annotated[
        str, Query(max_length=200, description="What was typed; empty: the most frequent labels.")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    language: LanguageQuery = None,
) -> Response:
    """Find labels by what is typed.

    Names that begin so come first, then names with a later word that does, then names that differ by a few letters.
    """
    state = state_of(request)
    loaded = state.holder.current
    found = await state.in_thread(loaded.names.search, q, limit)
    removed = loaded.tagger.vocab_.removed
    chosen = loaded.language(language)
    rows = [
        {
            **loaded.brief(one.label, chosen),
            "masked": bool(removed is not None and removed[one.label]),
            "match": one.match,
            "matched": one.matched,
        }
        for one in found
    ]
    return JsonResponse({"labels": rows})


async def label(request: Request, label: LabelPlace, language: LanguageQuery = None) -> Response:
    """Show everything about a label: frequency, names, senses, neighbours, example texts."""
    state = state_of(request)
    loaded = state.holder.current
    number = loaded.find(label, "path.label")
    chosen = loaded.language(language)
    card = await state.in_thread(lambda: loaded.tagger.label_card(number, language=chosen))
    return JsonResponse(asdict(card))


async def tree(
    request: Request,
    node: Annotated[int, Query(ge=0, le=2**31 - 1, description="0 is the root.")] = 0,
    depth: Annotated[int, Query(ge=0, le=8, description="Generations below the node to show.")] = 1,
    tree: Annotated[int, Query(ge=0, le=1000, description="Number of the tree.")] = 0,
    language: LanguageQuery = None,
) -> Response:
    """Show a node of the label tree and what is below it, a few generations at a time."""
    state = state_of(request)
    loaded = state.holder.current
    chosen = loaded.language(language)
    try:
        found = await state.in_thread(
            lambda: loaded.tagger.tree_view(node, tree=tree, depth=depth, limit=_MOST_NODES, language=chosen)
        )
    except InputError as error:
        raise ProblemError("not-found", f"{error}.") from error
    return JsonResponse(asdict(found))


async def model(request: Request) -> Response:
    """Show what the model is, how good it is, and what may be asked."""
    state = state_of(request)
    loaded = state.holder.current
    facts = await state.in_thread(loaded.facts)
    limits = asdict(state.settings.limits)
    del limits["body_seconds"]
    groups = loaded.groups
    service = {
        "groups": None if groups is None else len(groups),
        "feedback": state.feedback is not None,
        "limits": limits,
    }
    return JsonResponse({**facts, **service})
