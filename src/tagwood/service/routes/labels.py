"""Endpoints about labels and the label tree. In: query parameters. Out: values that the Tagger returns, as JSON."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from tagwood.errors import InputError
from tagwood.service.problems import ProblemError
from tagwood.service.schemas import FoundLabel
from tagwood.service.security import JsonResponse
from tagwood.service.state import state_of
from tagwood.tagger.stored import brief_label

LabelPath = Annotated[int, Path(description="Id of the label.", examples=[0])]
LanguageQuery = Annotated[
    str | None,
    Query(max_length=35, description="Language of the label names; default and fallback: the main names."),
]


async def labels(
    request: Request,
    q: Annotated[str, Query(max_length=200, description="Part of a name; empty: the most frequent labels.")] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    language: LanguageQuery = None,
) -> Response:
    """Search labels by name.

    Names that start with the query come first, then names in which a later word does, then names that differ by a few
    letters.
    """
    state = state_of(request)
    loaded = state.holder.current
    found = await state.in_thread(loaded.names.search, q, limit)
    tagger, chosen = loaded.tagger, loaded.language(language)
    removed = tagger.vocab_.removed
    rows = []
    for label, match, matched in found:
        masked = removed is not None and bool(removed[label])
        rows.append(FoundLabel(**vars(brief_label(tagger, label, chosen)), masked=masked, match=match, matched=matched))
    return JsonResponse({"labels": rows})


async def label(request: Request, label: LabelPath, language: LanguageQuery = None) -> Response:
    """Show everything about a label: frequency, names, senses, neighbours, example texts."""
    state = state_of(request)
    loaded = await state.up_to_date()
    found, chosen = loaded.find(label, "path.label"), loaded.language(language)
    key = loaded.tagger.vocab_.label_id(found)
    return JsonResponse(await state.in_thread(loaded.tagger.label_card, key, language=chosen))


async def tree(
    request: Request,
    node: Annotated[int, Query(ge=0, le=2**31 - 1, description="0 is the root.")] = 0,
    depth: Annotated[int, Query(ge=0, le=8, description="Number of levels below the node to show.")] = 1,
    tree: Annotated[int, Query(ge=0, le=1000, description="Number of the tree.")] = 0,
    language: LanguageQuery = None,
) -> Response:
    """Show a node of the label tree and the levels below it."""
    state = state_of(request)
    loaded = state.holder.current
    chosen = loaded.language(language)
    try:
        view = await state.in_thread(loaded.tagger.tree_view, node, tree=tree, depth=depth, language=chosen)
    except InputError as error:
        raise ProblemError("not-found", str(error)) from None
    return JsonResponse(view)
