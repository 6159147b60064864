"""Routes about a text: suggestions, explanations, feedback. In: checked bodies. Out: JSON values."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from tagwood.service.batching import Options
from tagwood.service.loaded import Loaded
from tagwood.service.problems import Part, ProblemError
from tagwood.service.schemas import ExplainRequest, FeedbackRequest, LabelKey, SuggestRequest
from tagwood.service.settings import Limits
from tagwood.service.state import state_of

# SECTION service.limits
# Check requests against the operator's limits. In: checked bodies. Out: values, or a problem that says more.


def check_texts(texts: str | list[str], limits: Limits) -> list[str]:
    """Return one text or many as a list that is neither empty nor too long."""
    rows = [texts] if isinstance(texts, str) else texts
    if not rows:
        raise _refuse("#/texts", "At least one text is needed.")
    if len(rows) > limits.texts:
        raise _refuse("#/texts", f"{len(rows):,} texts are more than the {limits.texts:,} of one request.")
    for place, text in enumerate(rows):
        if len(text) > limits.text_chars:
            pointer = "#/texts" if isinstance(texts, str) else f"#/texts/{place}"
            raise too_long(pointer, text, limits)
    return rows


def check_text(text: str, limits: Limits) -> str:
    """Return a text that is not too long."""
    if len(text) > limits.text_chars:
        raise too_long("#/text", text, limits)
    return text


def check_k(k: int, limits: Limits) -> int:
    """Return a number of labels that is not too large."""
    if k > limits.k:
        raise _refuse("#/k", f"{k:,} is more than the {limits.k:,} labels that may be asked for.")
    return k


def check_count(labels: Sequence[LabelKey], field: str, limits: Limits) -> None:
    """Raise a problem for too many labels."""
    if len(labels) > limits.labels:
        raise _refuse(f"#/{field}", f"{len(labels):,} labels are more than the {limits.labels:,} allowed.")


def too_long(pointer: str, text: str, limits: Limits) -> ProblemError:
    """Return the problem of a text that is too long."""
    return _refuse(
        pointer, f"The text has {len(text):,} characters; at most {limits.text_chars:,} are taken."
    )


def _refuse(pointer: str, detail: str) -> ProblemError:
    return ProblemError("invalid-request", detail, [Part(pointer, detail)])


async def suggest(request: Request, body: SuggestRequest) -> Any:
    """Suggest labels for one text or many.

    One entry in `results` for each text, best label first. Large sets of texts are sent in parts.
    """
    state = state_of(request)
    loaded, limits = state.holder.current, state.settings.limits
    texts = check_texts(body.texts, limits)
    options = _options(loaded, body, limits)
    if state.settings.log_texts:
        state.log.event("texts", id=request.scope["request_id"], texts=texts)
    results = await state.gatherer.ask(loaded, texts, options)
    state.telemetry.add("texts", len(texts))
    return {"results": results, "calibrated": loaded.calibrated, "model": loaded.name}


async def explain(request: Request, body: ExplainRequest) -> Any:
    """Say why a label was suggested for a text, or where it was lost."""
    state = state_of(request)
    loaded, limits = state.holder.current, state.settings.limits
    text = check_text(body.text, limits)
    label = loaded.find(body.label, "#/label")
    k = check_k(body.k, limits)
    return await state.in_thread(_explain, loaded, text, label, k, body)


async def feedback(request: Request, body: FeedbackRequest) -> Any:
    """Store what a person thinks of the labels of a text.

    The record is on the disk before the answer comes. The lines of the file can be trained on: `text`, and in `labels`
    what was accepted or added.
    """
    state = state_of(request)
    loaded, limits = state.holder.current, state.settings.limits
    if state.feedback is None:
        raise ProblemError("conflict", "This service was started without a file for feedback.")
    for field in ("accepted", "rejected", "added"):
        check_count(getattr(body, field), field, limits)
    record = feedback_record(loaded, check_text(body.text, limits), body)
    await state.feedback.append([record])
    state.telemetry.add("feedback")
    return {"id": record["id"], "records": 1}


def new_id() -> str:
    """Return an id for a stored record: the time and some letters."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def label_object(loaded: Loaded, label: int) -> dict[str, str]:
    """Return a label as `tagwood train` reads it: by name, and by URI where it has one."""
    vocab = loaded.tagger.vocab_
    uri = vocab.uri(label)
    return {"label": vocab.name(label), **({"uri": uri} if uri else {})}


def feedback_record(loaded: Loaded, text: str, body: FeedbackRequest) -> dict[str, Any]:
    """Return the line that is stored."""
    accepted = _named(loaded, body.accepted, "accepted")
    added = [_added(loaded, label, place) for place, label in enumerate(body.added)]
    return {
        "id": new_id(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": loaded.name,
        "document": body.id,
        "text": text,
        "labels": accepted + added,
        "accepted": accepted,
        "rejected": _named(loaded, body.rejected, "rejected"),
        "added": added,
        "note": body.note,
    }


def _added(loaded: Loaded, label: LabelKey, place: int) -> dict[str, str]:
    """Return an added label; a name that is not known is a proposal."""
    if isinstance(label, str) and loaded.tagger.vocab_.find(label) is None:
        return {"label": label}
    return label_object(loaded, loaded.find(label, f"#/added/{place}"))


def _named(loaded: Loaded, labels: list[LabelKey], field: str) -> list[dict[str, str]]:
    return [
        label_object(loaded, loaded.find(label, f"#/{field}/{place}")) for place, label in enumerate(labels)
    ]


def _options(loaded: Loaded, body: SuggestRequest, limits: Limits) -> Options:
    if body.promise is not None and not loaded.calibrated:
        raise ProblemError(
            "conflict", "A promise needs probabilities, and this model has none; ask for k labels."
        )
    found: dict[str, tuple[int, ...] | None] = {"restrict": None, "exclude": ()}
    for field in ("restrict", "exclude"):
        labels = getattr(body, field)
        if labels is None:
            continue
        check_count(labels, field, limits)
        found[field] = tuple(loaded.find(label, f"#/{field}/{place}") for place, label in enumerate(labels))
    return Options(
        k=check_k(body.k, limits),
        threshold=body.threshold,
        promise=None if body.promise is None else plain_promise(body.promise),
        restrict=found["restrict"],
        exclude=found["exclude"] or (),
        language=loaded.language(body.language),
    )


def plain_promise(promise: str) -> str:
    """Return one spelling of a promise, since each is fitted once and remembered.

    Examples
    --------
    >>> plain_promise("precision>=90%"), plain_promise("recall>=.80"), plain_promise("f1")
    ('precision>=0.9', 'recall>=0.8', 'f1')
    """
    kind, _, value = promise.partition(">=")
    if not value:
        return kind
    share = float(value[:-1]) / 100 if value.endswith("%") else float(value)
    return f"{kind}>={share:g}"


def _explain(loaded: Loaded, text: str, label: int, k: int, body: ExplainRequest) -> dict[str, Any]:
    found = loaded.tagger.explain(
        text,
        label,
        k=k,
        threshold=body.threshold,
        language=loaded.language(body.language),
        n_similar=body.similar,
    )
    content = found.to_dict()
    del content["text"]
    return {**content, "segments": [one._asdict() for one in found.segments()], "model": loaded.name}
