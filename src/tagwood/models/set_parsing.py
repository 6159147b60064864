"""The rules a user can write: ``"precision>=0.9"``, ``"f1"``, ``"top-5"`` and the others of `FORMS`.

In: text. Out: what kind of rule, and its number.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, NamedTuple

from tagwood.errors import InputError

FORMS = ("precision>=0.9", "recall>=0.8", "f1", "row-f1", "threshold>=0.5", "top-5")
_SHARE = re.compile(r"(precision|recall|threshold)\s*>=\s*(\d*\.?\d+|\d+\.)(%?)")
_TOP = re.compile(r"top-(\d{1,9})")


class RuleText(NamedTuple):
    """A parsed rule: its kind and, where it has one, its number."""

    kind: str
    value: float


def parse_rule(text: Any) -> RuleText:
    """Return the kind and number of a rule, or raise `InputError` with the nearest form.

    Examples
    --------
    >>> parse_rule("precision >= 0.9"), parse_rule("top-5")
    (RuleText(kind='precision', value=0.9), RuleText(kind='top', value=5.0))
    >>> parse_rule("precision=0.9")
    Traceback (most recent call last):
    tagwood.errors.InputError: a set rule must be like 'precision>=0.9', 'recall>=0.8', 'f1', 'row-f1', \
'threshold>=0.5' or 'top-5'; got 'precision=0.9'. Did you mean 'precision>=0.9'?
    """
    plain = text.strip().lower() if isinstance(text, str) else ""
    if plain in ("f1", "row-f1"):
        return RuleText(plain, 0.0)
    if found := _TOP.fullmatch(plain):
        if int(found[1]) >= 1:
            return RuleText("top", float(found[1]))
        raise InputError(
            "a top rule must ask for one label or more", given=repr(text), hint="Such as 'top-5'."
        )
    if found := _SHARE.fullmatch(plain):
        value = float(found[2]) / (100 if found[3] else 1)
        if 0 < value < 1 or (found[1] == "threshold" and value in (0, 1)):
            return RuleText(found[1], value)
        raise InputError(
            f"the number of a {found[1]} rule must be between 0 and 1",
            given=repr(text),
            hint=f"Write a share such as '{found[1]}>=0.9'.",
        )
    raise _unknown(text, plain)


def _unknown(text: Any, plain: str) -> InputError:
    near = get_close_matches(plain, FORMS, n=1, cutoff=0.3)
    words = ", ".join(map(repr, FORMS[:-1])) + f" or {FORMS[-1]!r}"
    given = repr(text) if isinstance(text, str) else type(text).__name__
    return InputError(
        f"a set rule must be like {words}", given=given, hint=f"Did you mean {near[0]!r}?" if near else None
    )
