"""Endpoints about a text: suggestions, explanations, feedback. In: checked bodies. Out: JSON values."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from tagwood.data.fields import text_of_fields
from tagwood.errors import InputError
from tagwood.models.label_filter import LabelFilter
from tagwood.service.batching import TagOptions
from tagwood.service.filters import lasting_names
from tagwood.service.learning import Learned
from tagwood.service.problems import ProblemError
from tagwood.service.schemas import ExplainRequest, FeedbackRequest, LabelKey, LearnRequest, SuggestRequest
from tagwood.service.settings import RequestLimits
from tagwood.service.state import LoadedModel, ServiceState, state_of


async def suggest(request: Request, body: SuggestRequest) -> Any:
    """Suggest labels for one or more texts.

    `results` has one entry per text, best label first. Send large collections in several requests.
    """
    state = state_of(request)
    await state.up_to_date()
    loaded, other = state.models_for(request.scope["request_id"])
    try:
        results = await _answer(state, loaded, body)
    except ProblemError:
        main = state.holder.current
        if loaded is main or not loaded.is_overwritten():
            raise
        loaded, other = main, None  # the candidate was overwritten meanwhile
        results = await _answer(state, loaded, body)
    texts = given_texts(loaded, body, state.settings.limits)
    if state.settings.log_texts:
        state.log.event("texts", id=request.scope["request_id"], texts=texts)
    state.metrics.add("texts", len(texts))
    state.traffic.answered(loaded.tagger, loaded.bands, texts, results)
    if other is not None:
        with contextlib.suppress(ProblemError):  # labels that only one of the models knows: nothing to compare
            others = await _options(state, other, body)
            state.compare(other, given_texts(other, body, state.settings.limits), others, results)
    return {"results": results, "calibrated": loaded.calibrated, "model": loaded.name}


async def _answer(state: ServiceState, loaded: LoadedModel, body: SuggestRequest) -> list[dict[str, Any]]:
    """Return the labels of each text of a request by a model."""
    texts = given_texts(loaded, body, state.settings.limits)
    return await state.tag(loaded, texts, await _options(state, loaded, body))


async def _allowed(state: ServiceState, loaded: LoadedModel, body: SuggestRequest) -> LabelFilter | None:
    """Return the labels in all named filters of a request; a filter that is new to the worker is looked up."""
    if not body.filters:
        return None
    found = state.filters.prepared(loaded.tagger, body.filters)
    return found or await state.in_thread(state.filters.filter_of, loaded.tagger, body.filters)


async def explain(request: Request, body: ExplainRequest) -> Any:
    """Explain why a label was suggested for a text, or why it was not."""
    state = state_of(request)
    await state.up_to_date()
    loaded, limits = state.named_model(body.model, [body.label]), state.settings.limits
    text = given_text(loaded, body, limits)
    label = loaded.find(body.label, "#/label")
    found = await state.in_thread(
        loaded.tagger.explain,
        text,
        loaded.tagger.vocab_.label_id(label),
        k=_check_k(body.k, limits),
        threshold=body.threshold,
        language=loaded.language(body.language),
        n_similar=body.similar,
    )
    loaded.check()
    content = found.to_dict()
    del content["text"]
    segments = [segment._asdict() for segment in found.segments()]
    return {**content, "segments": segments, "model": loaded.name}


async def feedback(request: Request, body: FeedbackRequest) -> Any:
    """Store a person's decisions on the labels of a text.

    The record is on disk before the answer is sent. `tagwood train` can read the file: each line has the `text`, and
    in `labels` those that were accepted or added.
    """
    state = state_of(request)
    if state.feedback is None:
        raise ProblemError("conflict", "This service was started without a file for feedback.")
    record = _feedback_record(state, body)
    await state.feedback.append([record])
    state.metrics.add("feedback")
    return {"id": record["id"], "records": 1}


async def learn(request: Request, body: LearnRequest) -> Any:
    """Teach the model decisions of people at once.

    The records are stored as by /v1/feedback, and on disk before the answer is sent; every later answer takes them into
    account. A model that would become worse is not changed (409), unless `force` is set.
    """
    state = state_of(request)
    limits = state.settings.limits
    if len(body.records) > limits.texts:
        detail = f"Send at most {limits.texts:,} records in one request; got {len(body.records):,}."
        raise ProblemError.at("#/records", detail)
    records = [_feedback_record(state, one, f"#/records/{n}") for n, one in enumerate(body.records)]
    found = await teach(state, records, force=body.force)
    measured = None if found.measured is None else found.measured._asdict()
    return {"learned": found.learned, "left_out": found.left_out, "measured": measured, "model": state.holder.name}


async def teach(state: ServiceState, records: list[dict[str, Any]], *, force: bool = False) -> Learned:
    """Let the model in use learn records; a problem if the operator does not allow it."""
    if state.learning is None:
        detail = "This service does not learn; the operator can start it with: tagwood serve --learn."
        raise ProblemError("conflict", detail)
    found = await state.in_thread(state.learning.learn, records, force=force)
    state.metrics.add("feedback", len(records))
    state.log.event("learned", project=state.project, texts=found.learned)
    return found


def given_texts(loaded: LoadedModel, body: SuggestRequest, limits: RequestLimits) -> list[str]:
    """Return the texts of a request, which are given as such or by their fields."""
    if (body.texts is None) == (body.fields is None):
        raise ProblemError.at("#/texts", "Send either 'texts' or 'fields'.")
    if body.fields is None:
        return check_texts(body.texts, limits)
    one = isinstance(body.fields, dict)
    rows = [body.fields] if isinstance(body.fields, dict) else body.fields
    if not 0 < len(rows) <= limits.texts:
        raise ProblemError.at("#/fields", f"Send 1 to {limits.texts:,} texts in one request; got {len(rows):,}.")
    return [_from_fields(loaded, row, limits, "#/fields" if one else f"#/fields/{i}") for i, row in enumerate(rows)]


def given_text(
    loaded: LoadedModel, body: ExplainRequest | FeedbackRequest, limits: RequestLimits, at: str = "#"
) -> str:
    """Return the text of a request, which is given as such or by its fields."""
    if (body.text is None) == (body.fields is None):
        raise ProblemError.at(f"{at}/text", "Send either 'text' or 'fields'.")
    if body.fields is None:
        return check_text(body.text, limits, f"{at}/text")
    return _from_fields(loaded, body.fields, limits, f"{at}/fields")


def _from_fields(loaded: LoadedModel, fields: dict[str, str], limits: RequestLimits, pointer: str = "#/fields") -> str:
    """Return the text of named fields; raise a problem for those that the model does not have."""
    try:
        text = text_of_fields(fields, loaded.tagger.fields_)
    except InputError as error:
        raise ProblemError.at(pointer, str(error), "conflict") from None
    return check_text(text, limits, pointer)


def check_texts(texts: str | list[str], limits: RequestLimits, *, kind: str = "invalid-request") -> list[str]:
    """Return texts as a list; raise a problem if there are too many, or one is too long."""
    rows = [texts] if isinstance(texts, str) else texts
    if not rows:
        raise ProblemError.at("#/texts", "Send at least one text.", kind)
    if len(rows) > limits.texts:
        detail = f"Send at most {limits.texts:,} texts in one request; got {len(rows):,}."
        raise ProblemError.at("#/texts", detail, kind)
    for place, text in enumerate(rows):
        check_text(text, limits, "#/texts" if isinstance(texts, str) else f"#/texts/{place}", kind=kind)
    return rows


def check_text(text: str, limits: RequestLimits, pointer: str = "#/text", *, kind: str = "invalid-request") -> str:
    """Return a text; raise a problem if it is too long."""
    if len(text) > limits.text_chars:
        detail = f"A text may have at most {limits.text_chars:,} characters; got {len(text):,}."
        raise ProblemError.at(pointer, detail, kind)
    return text


def _check_k(k: int, limits: RequestLimits) -> int:
    if k > limits.k:
        raise ProblemError.at("#/k", f"k may be at most {limits.k:,}; got {k:,}.")
    return k


def check_count(labels: Sequence[LabelKey], pointer: str, limits: RequestLimits) -> None:
    """Raise a problem if there are too many labels."""
    if len(labels) > limits.labels:
        raise ProblemError.at(pointer, f"Send at most {limits.labels:,} labels; got {len(labels):,}.")


def new_record(loaded: LoadedModel) -> dict[str, Any]:
    """Return how a stored record begins: its id (the time and some random characters), time and model."""
    now = datetime.now(UTC)
    name = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
    return {"id": name, "time": now.isoformat(timespec="seconds"), "model": loaded.name}


def training_label(loaded: LoadedModel, label: int) -> dict[str, str]:
    """Return a label in the form that `tagwood train` reads: by name, and by URI if it has one."""
    vocab = loaded.tagger.vocab_
    uri = vocab.uri(label)
    return {"label": vocab.name(label), **({"uri": uri} if uri else {})}


def _feedback_record(state: ServiceState, body: FeedbackRequest, at: str = "#") -> dict[str, Any]:
    limits = state.settings.limits
    sent = [*body.accepted, *body.rejected, *body.added, *body.untouched]
    loaded = state.named_model(body.model, sent, f"{at}/model")
    text = given_text(loaded, body, limits, at)
    for field in ("accepted", "rejected", "added", "untouched"):
        check_count(getattr(body, field), f"{at}/{field}", limits)

    def known(field: str) -> list[dict[str, str]]:
        found = loaded.find_many(getattr(body, field), f"{at}/{field}")
        return [training_label(loaded, label) for label in found]

    accepted, rejected = known("accepted"), known("rejected")
    added = [added_label(loaded, label, f"{at}/added/{place}") for place, label in enumerate(body.added)]
    both = next((one["label"] for one in (*accepted, *added) if one in rejected), None)
    if both is not None:
        raise ProblemError.at(f"{at}/rejected", f"{both!r} is right and rejected in one record; keep one of the two.")
    return {
        **new_record(loaded),
        "document": body.id,
        "by": body.by,
        "text": text,
        "labels": accepted + added,
        "accepted": accepted,
        "rejected": rejected,
        "added": added,
        "untouched": known("untouched"),
        "note": body.note,
    }


def added_label(loaded: LoadedModel, label: LabelKey, pointer: str) -> dict[str, str]:
    """Return an added label; an unknown name is a proposal for a new label."""
    if isinstance(label, str):
        with contextlib.suppress(InputError):  # ambiguous: reported by `find`
            if loaded.tagger.vocab_.find(label) is None:
                return {"label": label}
    return training_label(loaded, loaded.find(label, pointer))


async def _options(state: ServiceState, loaded: LoadedModel, body: SuggestRequest) -> TagOptions:
    """Return the options of a request to a model; rows of the label table are those of the model in use."""
    limits, main = state.settings.limits, state.holder.current
    if body.promise is not None and not loaded.calibrated:
        detail = "A promise needs calibrated probabilities, which this model does not have; use k instead."
        raise ProblemError("conflict", detail)
    found: dict[str, tuple[int, ...] | None] = {"restrict": None, "restrict_branch": None, "exclude": None}
    for field in found:
        labels = getattr(body, field)
        if labels is not None:
            check_count(labels, f"#/{field}", limits)
            if loaded is not main:
                labels = lasting_names(main.tagger.vocab_, labels)
            found[field] = loaded.find_many(labels, f"#/{field}")
    branches = found["restrict_branch"]
    if branches is not None:
        try:
            below = tuple(loaded.tagger.vocab_.below(branches).tolist())
        except InputError as error:
            raise ProblemError.at("#/restrict_branch", str(error), "unknown-label") from None
        found["restrict"] = (*(found["restrict"] or ()), *below)
    return TagOptions(
        k=_check_k(body.k, limits),
        threshold=body.threshold,
        promise=None if body.promise is None else normalize_promise(body.promise),
        restrict=found["restrict"],
        exclude=found["exclude"],
        language=loaded.language(body.language),
        allowed=await _allowed(state, loaded, body),
    )


def normalize_promise(promise: str) -> str:
    """Return a promise in one spelling, because its rule is fitted once per spelling and kept.

    Examples
    --------
    >>> normalize_promise("precision>=90%"), normalize_promise("recall>=.80"), normalize_promise("f1")
    ('precision>=0.9', 'recall>=0.8', 'f1')
    """
    kind, _, value = promise.partition(">=")
    if not value:
        return kind
    share = float(value[:-1]) / 100 if value.endswith("%") else float(value)
    return f"{kind}>={share:g}"
