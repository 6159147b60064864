"""Routes about labels, the tree and the model. In: query parameters. Out: JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from tagwood.service.label_cards import label_card
from tagwood.service.loaded import Loaded
from tagwood.service.model_facts import model_facts
from tagwood.service.problems import ProblemError
from tagwood.service.security import JsonResponse
from tagwood.service.state import state_of
from tagwood.service.tree_browser import TreeBrowser

_MOST_NODES = 2000
_LARGEST = 3
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
    return JsonResponse(await state.in_thread(label_card, loaded, number, loaded.language(language)))


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
    browsers = loaded.trees
    if tree >= len(browsers):
        raise ProblemError(
            "not-found", f"The model has {len(browsers)} label trees; number {tree} is not there."
        )
    if node >= browsers[tree].tree.n_nodes:
        raise ProblemError(
            "not-found", f"The tree has {browsers[tree].tree.n_nodes:,} nodes; there is no {node}."
        )
    chosen = loaded.language(language)
    return JsonResponse(await state.in_thread(show_tree, loaded, tree, node, depth, chosen))


async def model(request: Request) -> Response:
    """Show what the model is, how good it is, and what may be asked."""
    state = state_of(request)
    loaded = state.holder.current
    facts = await state.in_thread(lambda: loaded.facts(model_facts))
    limits = asdict(state.settings.limits)
    del limits["body_seconds"]
    groups = loaded.groups
    service = {
        "groups": None if groups is None else len(groups),
        "feedback": state.feedback is not None,
        "limits": limits,
    }
    return JsonResponse({**facts, **service})


def show_tree(loaded: Loaded, number: int, node: int, depth: int, language: str | None) -> dict[str, Any]:
    """Return a node and what is below it."""
    browser = loaded.trees[number]
    nodes, complete = browser.descendants(node, depth, _MOST_NODES)
    leaf = not browser.children(node)
    inside = browser.leaf_labels(node)[:_MOST_NODES] if leaf else []
    return {
        "tree": number,
        "trees": len(loaded.trees),
        "max_depth": browser.max_depth,
        "path": [_node(loaded, browser, one, language) for one in browser.path(node)],
        "nodes": [_node(loaded, browser, one, language) for one in nodes],
        "complete": complete,
        "labels": [loaded.brief(one, language) for one in inside],
    }


def _node(loaded: Loaded, browser: TreeBrowser, node: int, language: str | None) -> dict[str, Any]:
    children = len(browser.children(node))
    return {
        "node": node,
        "parent": None if node == 0 else int(browser.tree.parent[node]),
        "depth": int(browser.tree.depth[node]),
        "leaf": children == 0,
        "children": children,
        "labels": int(browser.labels_below[node]),
        "rows": int(browser.rows_below[node]),
        "largest": [loaded.brief(label, language) for label in browser.largest(node, _LARGEST)],
    }
