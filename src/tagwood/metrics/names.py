"""Names of metrics: ``"P@5"``, ``"PSP@3"``, ``"micro-F1"``; one table says what each one needs.

In: what users write, in any case of letters. Out: `MetricName`, which `terms` knows how to compute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from tagwood.errors import InputError

AT_K = ("P", "R", "RP", "nDCG", "PSP", "PSR", "PSnDCG", "coverage", "depth")
"""Metrics of the first k labels of a ranking; ``@k`` is part of the name."""

SETS = (
    *(f"{how}-{what}" for how in ("micro", "macro", "weighted", "example") for what in ("P", "R", "F1")),
    "hamming",
)
"""Metrics of label sets; with ``@k`` the set is the first k labels, without it all that were returned."""

_BY_FOLD = {name.casefold(): name for name in (*AT_K, *SETS)}
_FORM = re.compile(r"(?P<family>[A-Za-z0-9]+(?:-[A-Za-z0-9]+)?)(?:@(?P<k>[0-9]{1,9}))?")


@dataclass(frozen=True)
class MetricName:
    """A metric: its family and the number of labels it looks at (None: all that were returned).

    Examples
    --------
    >>> name = parse_metric("ndcg@5")
    >>> str(name), name.k
    ('nDCG@5', 5)
    """

    family: str
    k: int | None

    def __str__(self) -> str:
        return self.family if self.k is None else f"{self.family}@{self.k}"

    @property
    def needs_counts(self) -> bool:
        """Whether it weighs labels by their inverse propensity."""
        return self.family.startswith("PS")

    @property
    def is_percent(self) -> bool:
        """Whether tables show it times 100, as papers do."""
        return self.family not in ("depth", "hamming")


def parse_metric(text: str | MetricName) -> MetricName:
    """Return the metric of that name, or raise `InputError` with the nearest one.

    Examples
    --------
    >>> parse_metric("nDGC@3")
    Traceback (most recent call last):
    tagwood.errors.InputError: unknown metric 'nDGC@3'. Did you mean 'nDCG@3'?
    """
    if isinstance(text, MetricName):
        return text
    found = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
    family = _BY_FOLD.get(found["family"].casefold()) if found else None
    if found is None or family is None:
        raise InputError(f"unknown metric {text!r}", hint=_suggest(text))
    k = None if found["k"] is None else int(found["k"])
    if k == 0 or (k is None and family in AT_K):
        raise InputError(
            f"metric {family} needs the number of labels to look at, 1 or more",
            given=repr(text),
            hint=f"For example '{family}@5'.",
        )
    return MetricName(family, k)


def parse_metrics(texts: Iterable[str | MetricName]) -> list[MetricName]:
    """Return the metrics of these names, each once, in the order given."""
    if isinstance(texts, str):
        texts = [texts]
    names = list(dict.fromkeys(map(parse_metric, texts)))
    if not names:
        raise InputError("metrics must name at least one metric", given="none", hint="For example 'P@1'.")
    return names


def _suggest(text: object) -> str:
    if isinstance(text, str):
        family, at, k = text.strip().partition("@")
        near = get_close_matches(family.casefold(), _BY_FOLD, n=1, cutoff=0.5)
        if near:
            name = _BY_FOLD[near[0]]
            k = k if k.isdigit() and int(k) else "5"
            return f"Did you mean '{name}@{k}'?" if at or name in AT_K else f"Did you mean '{name}'?"
    return f"Known are {', '.join(f'{name}@k' for name in AT_K)}, {', '.join(SETS)}."
