"""Endpoints of Annif's REST API (version 1), so that programs written for Annif can ask this service.

In: forms and JSON as Annif documents them. Out: its shapes; errors are problems, as in Annif, with status 400.

Decisions: a label without a URI is named by its name where Annif has a URI. `limit` is cut to the operator's limit of
labels per text. A batch may hold as many documents as the operator allows, not only 32. Fields that Annif allows and
this service does not use, such as metadata, are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Annotated, Any, ClassVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, RootModel
from starlette.requests import Request
from starlette.responses import Response

from tagwood.data.languages import LANGUAGES, detect_language
from tagwood.errors import InputError
from tagwood.service.batching import TagOptions
from tagwood.service.problems import ProblemError
from tagwood.service.routes.texts import added_label, check_count, check_text, check_texts, new_record, teach
from tagwood.service.schemas import Whole
from tagwood.service.security import JsonResponse
from tagwood.service.settings import RequestLimits
from tagwood.service.state import LoadedModel, ServiceState, state_of

Number = Annotated[int, Field(ge=0, le=2**31 - 1), Whole()]

_LIMIT = 10
_SAMPLE = 50  # texts that tell the language of a model


class AnnifRequest(BaseModel):
    """Base of the bodies: further fields are ignored; an invalid one is answered with status 400."""

    problem: ClassVar[str] = "bad-request"
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class AnnifSuggestRequest(AnnifRequest):
    """A text to suggest subjects for, as a form or as JSON."""

    takes_forms: ClassVar[bool] = True

    text: str = Field(description="Input text.")
    limit: Number = Field(default=_LIMIT, description="Largest number of results.")
    threshold: float = Field(default=0.0, ge=0, le=1, description="Lowest score of a result.")
    language: str | None = Field(default=None, max_length=35, description="Language of the labels.")


class AnnifDocument(AnnifRequest):
    """A document of a batch."""

    text: str
    document_id: str | None = Field(default=None, max_length=1000)


class AnnifBatchRequest(AnnifRequest):
    """Documents to suggest subjects for."""

    documents: list[AnnifDocument]


class AnnifSubjectKey(AnnifRequest):
    """A subject of a document, by its URI; by its label where there is none."""

    uri: str | None = Field(default=None, max_length=2000)
    label: str | None = Field(default=None, max_length=2000)


class AnnifIndexedDocument(AnnifRequest):
    """A document with its right subjects."""

    text: str
    subjects: list[AnnifSubjectKey]


class AnnifIndexedDocuments(RootModel[list[AnnifIndexedDocument]]):
    """Documents to learn."""

    problem: ClassVar[str] = "bad-request"


class AnnifLanguageRequest(AnnifRequest):
    """A text whose language is asked for."""

    text: str
    languages: list[Annotated[str, Field(min_length=2, max_length=3)]] = Field(min_length=1, max_length=5)


class AnnifInfo(BaseModel):
    """What answers."""

    title: str
    version: str


class AnnifVocabulary(BaseModel):
    """The vocabulary of a project."""

    vocab_id: str
    languages: list[str]
    size: int | None
    loaded: bool


class AnnifVocabularies(BaseModel):
    """The vocabularies of all projects."""

    vocabs: list[AnnifVocabulary]


class AnnifBackend(BaseModel):
    """The kind of model of a project."""

    backend_id: str


class AnnifProject(BaseModel):
    """A project: a served model."""

    project_id: str
    name: str
    language: str
    backend: AnnifBackend
    vocab: AnnifVocabulary | None
    vocab_language: str | None
    is_trained: bool
    modification_time: str | None


class AnnifProjects(BaseModel):
    """All projects."""

    projects: list[AnnifProject]


class AnnifSubject(BaseModel):
    """A suggested subject."""

    uri: str
    label: str
    notation: str | None
    score: float


class AnnifSuggestions(BaseModel):
    """Subjects, best first."""

    results: list[AnnifSubject]


class AnnifDocumentSuggestions(AnnifSuggestions):
    """Subjects of one document of a batch."""

    document_id: str | None


class AnnifLanguage(BaseModel):
    """A candidate language, or null for none of them, with its share of the text."""

    language: str | None
    score: float


class AnnifLanguages(BaseModel):
    """Candidate languages, most likely first."""

    results: list[AnnifLanguage]


async def info(request: Request) -> Response:
    """Describe the interface."""
    return JsonResponse({"title": "tagwood, with Annif's REST API", "version": metadata.version("tagwood")})


async def vocabs(request: Request) -> Response:
    """List the vocabularies of all projects; each project has its own."""
    states: Sequence[ServiceState] = request.app.state.projects.values()
    return JsonResponse({"vocabs": [_vocab(state, state.holder.current) for state in states]})


async def projects(request: Request) -> Response:
    """List all projects."""
    states: Sequence[ServiceState] = request.app.state.projects.values()
    return JsonResponse({"projects": [await _project(state) for state in states]})


async def project(request: Request, project_id: str) -> Response:
    """Show a project."""
    return JsonResponse(await _project(state_of(request)))


async def suggest(request: Request, body: AnnifSuggestRequest, project_id: str) -> Any:
    """Suggest subjects for a text."""
    check_text(body.text, state_of(request).settings.limits, kind="bad-request")
    found = await _suggest(request, [body.text], body.limit, body.threshold, body.language)
    return {"results": found[0]}


async def suggest_batch(
    request: Request,
    body: AnnifBatchRequest,
    project_id: str,
    limit: Annotated[int, Query(ge=0, le=2**31 - 1, description="Largest number of results.")] = _LIMIT,
    threshold: Annotated[float, Query(ge=0, le=1, description="Lowest score of a result.")] = 0.0,
    language: Annotated[str | None, Query(max_length=35, description="Language of the labels.")] = None,
) -> Any:
    """Suggest subjects for several documents."""
    if not body.documents:
        return []
    limits = state_of(request).settings.limits
    texts = check_texts([one.text for one in body.documents], limits, kind="bad-request")
    found = await _suggest(request, texts, limit, threshold, language)
    pairs = zip(body.documents, found, strict=True)
    return [{"results": results, "document_id": document.document_id} for document, results in pairs]


async def learn(request: Request, body: AnnifIndexedDocuments, project_id: str) -> Response:
    """Teach the model documents with their right subjects at once; see /v1/learn."""
    state = state_of(request)
    documents, limits = body.root, state.settings.limits
    if documents:
        check_texts([one.text for one in documents], limits, kind="bad-request")
        loaded = state.holder.current
        records = [_learned_record(loaded, one, n, limits) for n, one in enumerate(documents)]
        await teach(state, records)
    return Response(status_code=204)


def _learned_record(loaded: LoadedModel, document: AnnifIndexedDocument, n: int, limits: RequestLimits) -> Any:
    """Return the record of a document; a subject that the vocabulary does not know is kept as a proposal."""
    given = [one.uri or one.label or "" for one in document.subjects]
    check_count(given, f"#/{n}/subjects", limits)
    labels = [added_label(loaded, label, f"#/{n}/subjects/{place}") for place, label in enumerate(given) if label]
    if not labels:
        raise ProblemError.at(f"#/{n}/subjects", "A document must have a subject with a uri or a label.", "bad-request")
    return {
        **new_record(loaded),
        "document": None,
        "by": None,
        "text": document.text,
        "labels": labels,
        "added": labels,
    }


async def detect(request: Request, body: AnnifLanguageRequest) -> Any:
    """Detect which of some languages a text is written in."""
    try:
        found = detect_language(body.text, body.languages)
    except InputError as error:
        raise ProblemError.at("#/languages", str(error), "bad-request") from None
    return {"results": [{"language": code, "score": score} for code, score in found]}


async def _suggest(
    request: Request, texts: list[str], limit: int, threshold: float, language: str | None
) -> list[list[dict[str, Any]]]:
    state = state_of(request)
    loaded = await state.up_to_date()
    known = _languages(state, loaded)
    if language is not None and language not in known:
        raise ProblemError("bad-request", f"Language {language[:35]!r} is not supported by the vocabulary.")
    k = min(limit, state.settings.limits.k)
    if not k:
        return [[] for _ in texts]
    options = TagOptions(k=k, threshold=threshold or None, language=loaded.language(language))
    results = await state.tag(loaded, texts, options)
    state.metrics.add("texts", len(texts))
    return [[_subject(label) for label in result["labels"]] for result in results]


def _subject(label: dict[str, Any]) -> dict[str, Any]:
    uri = label["uri"] or label["name"]
    return {"uri": uri, "label": label["name"], "notation": None, "score": label["score"]}


async def _project(state: ServiceState) -> dict[str, Any]:
    loaded = state.holder.current
    language = await state.in_thread(project_language, state, loaded)
    notes = "" if loaded.manifest is None else (loaded.manifest.notes or "").strip()
    modified = datetime.fromtimestamp(loaded.loaded_at, UTC).isoformat(timespec="seconds")
    return {
        "project_id": state.project,
        "name": notes if notes and "\n" not in notes and len(notes) <= 100 else state.project,
        "language": language,
        "backend": {"backend_id": type(loaded.tagger.model_).__name__},
        "vocab": _vocab(state, loaded),
        "vocab_language": _main_language(state, loaded),
        "is_trained": True,
        "modification_time": modified if loaded.manifest is None else loaded.manifest.created,
    }


def _vocab(state: ServiceState, loaded: LoadedModel) -> dict[str, Any]:
    size = len(loaded.tagger.vocab_)
    return {"vocab_id": state.project, "languages": _languages(state, loaded), "size": size, "loaded": True}


def _languages(state: ServiceState, loaded: LoadedModel) -> list[str]:
    """Return the languages of label names, that of the main names first."""
    main = _main_language(state, loaded)
    return list(dict.fromkeys([main, *loaded.tagger.vocab_.languages]))


def _main_language(state: ServiceState, loaded: LoadedModel) -> str:
    """Return the language whose names are the main ones; where none is named, it is taken to be that of the texts."""
    vocab = loaded.tagger.vocab_
    sample = range(min(len(vocab), _SAMPLE))
    same = {code: sum(vocab.name(label) == table[label] for label in sample) for code, table in vocab.languages.items()}
    best = max(same, key=lambda code: same[code], default=None)
    return best if best is not None and 2 * same[best] > len(sample) else project_language(state, loaded)


def project_language(state: ServiceState, loaded: LoadedModel) -> str:
    """Return the language of a project: as the operator says, or that of its training texts or label names.

    ``"und"`` (undetermined) where neither tells.
    """
    if state.language is not None:
        return state.language
    tagger = loaded.tagger
    texts = [] if tagger.examples_ is None else list(tagger.examples_.texts)[:_SAMPLE]
    if not texts:
        texts = [tagger.vocab_.name(label) for label in range(min(len(tagger.vocab_), 20 * _SAMPLE))]
    best = next((code for code, _ in detect_language(" ".join(texts), LANGUAGES) if code is not None), "und")
    state.language = best  # once; a new version of the model is taken to have texts in the same language
    return best
