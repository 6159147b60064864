"""Endpoints of the Reconciliation API (W3C draft 0.2), for OpenRefine: words of a table become labels of a project.

In: batches of queries, as a form or in the address. Out: candidates of the label search, suggestions while typing, and
a small page about a label.

Decisions: there is one type, ``Concept``; a query for another type has no candidates. The id of a candidate is the URI
of the label, or its name where it has none. A candidate is a sure match where its name, in any language, is the only
one that equals the query, case, accents and punctuation aside.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from html import escape
from typing import Annotated, Any, ClassVar
from urllib.parse import quote

import orjson
from fastapi import Query
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tagwood.service.label_search import FoundName, fold
from tagwood.service.problems import ProblemError, from_validation
from tagwood.service.routes.annif import AnnifRequest
from tagwood.service.security import JsonResponse
from tagwood.service.state import LoadedModel, ServiceState, state_of

CONCEPT = {"id": "Concept", "name": "Concept"}
_FEWEST = 3  # candidates, if the query does not say
_MOST = 100
_SHOWN = 5  # other names on the small page
_SIZE = {"width": 400, "height": 180}
_EMBEDDABLE = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = "body{font:14px/1.4 sans-serif;margin:.7em}h1{font-size:1.1em;margin:0 0 .4em}p{margin:.2em 0;color:#444}"


class ReconcileRequest(AnnifRequest):
    """A batch of queries: JSON in the field `queries` of a form, as OpenRefine sends it."""

    takes_forms: ClassVar[bool] = True

    queries: str = Field(description="JSON object: a name for each query -> {query, type, limit, ...}.")


class ReconcileQuery(AnnifRequest):
    """One query; properties are ignored."""

    query: str = Field(max_length=10_000)
    type: str | list[str] | None = None
    limit: int = Field(default=_FEWEST, ge=1, le=2**31 - 1)


class NamedThing(BaseModel):
    """A type, or a suggested label."""

    id: str
    name: str


class ReconcileCandidate(NamedThing):
    """A label that may be meant."""

    description: str
    type: list[NamedThing]
    score: float
    match: bool


class ReconcileResult(BaseModel):
    """Candidates of a query, best first."""

    result: list[ReconcileCandidate]


class SuggestedEntity(NamedThing):
    """A label whose name goes on like the prefix."""

    description: str
    notable: list[NamedThing]


class SuggestedEntities(BaseModel):
    """Labels, best first."""

    result: list[SuggestedEntity]


_QUERIES = TypeAdapter(dict[str, ReconcileQuery])


async def manifest(
    request: Request,
    project_id: str,
    queries: Annotated[str | None, Query(description="A batch of queries as JSON; without it, the manifest.")] = None,
) -> Response:
    """Describe the service to OpenRefine, or answer queries that are part of the address."""
    if queries is not None:
        return JsonResponse(await _answer(state_of(request), queries))
    state = state_of(request)
    here = str(request.url.replace(query="")).rstrip("/")
    uri = next((uri for uri in state.holder.current.tagger.vocab_.uris or () if uri), "")
    return JsonResponse(
        {
            "versions": ["0.1", "0.2"],
            "name": f"{state.project} (tagwood)",
            "identifierSpace": _space(uri) or f"{here}/view?id=",
            "schemaSpace": "http://www.w3.org/2004/02/skos/core#",
            "defaultTypes": [CONCEPT],
            "view": {"url": f"{here}/view?id={{{{id}}}}"},
            "preview": {"url": f"{here}/preview?id={{{{id}}}}", **_SIZE},
            "suggest": {"entity": {"service_url": here, "service_path": "/suggest/entity"}},
        }
    )


async def reconcile(request: Request, body: ReconcileRequest, project_id: str) -> Any:
    """Find the labels that words of a table mean."""
    return await _answer(state_of(request), body.queries)


async def suggest_entity(
    request: Request,
    project_id: str,
    prefix: Annotated[str, Query(max_length=200, description="What was typed.")],
    cursor: Annotated[int, Query(ge=0, le=_MOST, description="Number of suggestions to leave out.")] = 0,
) -> Response:
    """Suggest labels while typing."""
    state = state_of(request)
    loaded = state.holder.current
    found = await state.in_thread(_search, loaded, prefix, min(_MOST, cursor + 10))
    rows = [
        {**_named(loaded, one.label), "description": _described(loaded, one), "notable": [CONCEPT]} for one in found
    ]
    return JsonResponse({"result": rows[cursor:]})


async def preview(
    request: Request,
    project_id: str,
    id: Annotated[str, Query(min_length=1, max_length=2000)],  # noqa: A002  its name in the API
) -> Response:
    """Show a small page about a label, which OpenRefine embeds."""
    loaded = state_of(request).holder.current
    label = loaded.find(id, "query.id")
    vocab = loaded.tagger.vocab_
    names = [vocab.name(label, code) for code in vocab.languages]
    others = [name for name in dict.fromkeys(names) if name != vocab.name(label)][:_SHOWN]
    rows = int(loaded.tagger.label_counts_[label])
    lines = [", ".join(others), vocab.uri(label) or "", f"{rows:,} training texts"]
    inside = "".join(f"<p>{escape(line)}</p>" for line in lines if line)
    page = (
        f"<!doctype html><html lang=''><meta charset='utf-8'><title>{escape(vocab.name(label))}</title>"
        f"<style>{_STYLE}</style><h1>{escape(vocab.name(label))}</h1>{inside}</html>"
    )
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": _EMBEDDABLE})


async def view(
    request: Request,
    project_id: str,
    id: Annotated[str, Query(min_length=1, max_length=2000)],  # noqa: A002  its name in the API
) -> Response:
    """Go to the page of a label: its URI, if that is a web address, else its card here."""
    state = state_of(request)
    label = state.holder.current.find(id, "query.id")
    uri = state.holder.current.tagger.vocab_.uri(label) or ""
    if uri.startswith(("http://", "https://")):
        return RedirectResponse(uri, 302)
    return RedirectResponse(f"/?project={quote(state.project)}#/labels/{label}", 302)


async def _answer(state: ServiceState, queries: str) -> dict[str, Any]:
    try:
        batch = _QUERIES.validate_python(orjson.loads(queries))
    except orjson.JSONDecodeError as error:
        raise ProblemError.at("#/queries", f"The queries are not valid JSON: {error.msg}.", "bad-request") from None
    except ValidationError as error:
        problem = from_validation(error.errors(include_url=False))
        raise ProblemError("bad-request", problem.detail, problem.errors) from None
    most = state.settings.limits.texts
    if len(batch) > most:
        detail = f"Send at most {most:,} queries in one request; got {len(batch):,}."
        raise ProblemError.at("#/queries", detail, "bad-request")
    loaded = state.holder.current
    return await state.in_thread(lambda: {name: {"result": _candidates(loaded, one)} for name, one in batch.items()})


def _candidates(loaded: LoadedModel, query: ReconcileQuery) -> list[dict[str, Any]]:
    types = [query.type] if isinstance(query.type, str) else query.type
    if not query.query.strip() or (types and CONCEPT["id"] not in types):
        return []
    limit = min(query.limit, _MOST)
    found = _search(loaded, query.query, max(2, limit))
    exact = [one for one in found if _score(query.query, one) == 100.0]
    rows: list[dict[str, Any]] = [
        {
            **_named(loaded, one.label),
            "description": _described(loaded, one),
            "type": [CONCEPT],
            "score": _score(query.query, one),
            "match": exact == [one],
        }
        for one in found
    ]
    return sorted(rows, key=lambda row: -row["score"])[:limit]


def _search(loaded: LoadedModel, words: str, limit: int) -> list[FoundName]:
    """Return labels in use whose names match."""
    removed = loaded.tagger.vocab_.removed
    found = loaded.names.search(words, limit)
    return found if removed is None else [one for one in found if not removed[one.label]]


def _score(query: str, found: FoundName) -> float:
    if found.match == "exact":
        return 100.0
    return round(99.0 * SequenceMatcher(None, fold(query), fold(found.matched)).ratio(), 1)


def _named(loaded: LoadedModel, label: int) -> dict[str, str]:
    vocab = loaded.tagger.vocab_
    return {"id": vocab.uri(label) or vocab.name(label), "name": vocab.name(label)}


def _described(loaded: LoadedModel, found: FoundName) -> str:
    """Return the name that matched, where it is not the main one."""
    return "" if found.matched == loaded.tagger.vocab_.name(found.label) else found.matched


def _space(uri: str) -> str:
    """Return what the URIs of a vocabulary begin with, after the first of them."""
    end = max(uri.rfind("/"), uri.rfind("#")) + 1
    return uri[:end]
