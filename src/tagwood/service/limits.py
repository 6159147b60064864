"""Check requests against the operator's limits. In: checked bodies. Out: values, or a problem that says more."""

from __future__ import annotations

from collections.abc import Sequence

from tagwood.service.problems import Part, ProblemError
from tagwood.service.schemas import LabelKey
from tagwood.service.settings import Limits


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
