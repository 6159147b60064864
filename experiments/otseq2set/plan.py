"""Runs of the OTSeq2Set experiment: models, varied settings, the searched grid, choices; means over stored runs.

In: earlier results. Out: model, changed settings and seed of each run. The key of a run holds what differs from the
printed settings, so that one run serves all parts that need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments.statistics import in_words
from tagwood.neural.otseq2set.loss import choose_scheme

Settings = dict[str, Any]
Runs = dict[str, Any]
Run = dict[str, Any]
PLAIN: Settings = {"kind": "otseq2set", "network__light_conv": False, "loss__transport": 0.0}
MODELS: dict[str, Settings] = {
    "Seq2Seq": {"kind": "seq2seq", "network__light_conv": False},
    "MLC2Seq": {"kind": "mlc2seq", "network__light_conv": False},
    "SGM": {"kind": "sgm", "network__light_conv": False},
    "Seq2Seq + LC": {"kind": "seq2seq", "network__light_conv": True},
    "BM": PLAIN,
    "BM + LC": {**PLAIN, "network__light_conv": True},
    "BM + OT": {**PLAIN, "loss__transport": 8.0},
    "BM + OT + LC": {**PLAIN, "loss__transport": 8.0, "network__light_conv": True},
}
FREE: Settings = {"loss__transport_empty": "free"}
TABLE3 = ("Seq2Seq", "SGM", "BM", "BM + OT", "BM + OT + LC")
LARGE = ("Seq2Seq", "BM + OT + LC")  # on EURLEX57K, one seed
LONGER: Settings = {"training__epochs": 25}
EMPTY_WEIGHTS = (0.1, 0.2, 0.5)
# What is tried of the transport: ∅ in it, λ, weights of ∅.
TRANSPORTS = (
    ("label", 8.0, (0.1, 0.2, 0.5)),
    ("free", 8.0, (0.1, 0.2, 0.5)),
    *((empty, lam, (0.1, 0.2)) for empty in ("label", "free") for lam in (2.0, 20.0)),
)
# How a setting that differs is named; the printed value has no name.
PRINTED: Settings = {
    "loss__transport": 8.0,
    "loss__empty_weight": 0.2,
    "loss__transport_empty": "label",
    "loss__scheme": "auto",
    "training__epochs": 15,
}
TITLES = {
    "loss__transport": "λ = {:g}",
    "loss__empty_weight": "∅ weight {:g}",
    "loss__transport_empty": "∅ {}",
    "loss__scheme": "scheme {}",
    "training__epochs": "{} epochs",
    "loss__teacher_epochs": "{} teacher-forced epochs",
    "training__learning_rate": "learning rate {:g}",
}


def title_of(change: Settings) -> str:
    """Return what differs from the printed settings in words.

    Examples
    --------
    >>> title_of({"loss__empty_weight": 0.5, "loss__transport": 8.0})
    '∅ weight 0.5'
    """
    named = [key for key in TITLES if key in change and change[key] != PRINTED.get(key)]
    return ", ".join(TITLES[key].format(change[key]) for key in named)


def key_of(name: str, model: str, change: Settings, seed: int) -> str:
    """Return the name of a run."""
    return f"{name} | {model} | {title_of(change)} | {seed}"


def grid() -> Iterator[tuple[str, Settings]]:
    """Yield the settings among which one is chosen, for BM and for BM + OT."""
    yield from (("BM", {"loss__empty_weight": weight}) for weight in EMPTY_WEIGHTS)
    for empty, lam, weights in TRANSPORTS:
        yield from (
            ("BM + OT", {"loss__transport": lam, "loss__empty_weight": w, "loss__transport_empty": empty})
            for w in weights
        )


def chosen(runs: Runs, name: str, model: str, seeds: int = 3) -> Settings | None:
    """Return the setting of the grid with the best mean micro-F1 on held-out rows, of those run with all seeds.

    None where only the printed one was. A model with light convolutions takes that of the same model without.
    """
    plain = model.removesuffix(" + LC")
    tried = [(runs_of({"runs": runs}, name, plain, change, seeds), change) for m, change in grid() if m == plain]
    known = [(mean_of(found, "F1", "held"), change) for found, change in tried if len(found) == seeds]
    if not known or (len(known) == 1 and not title_of(known[0][1])):
        return None
    return max(known, key=lambda pair: pair[0])[1]


def plan(part: str, name: str, runs: Runs, sizes: Any, seeds: int = 3) -> Iterator[tuple[str, Settings, int]]:
    """Yield the runs of a part on a set: model, changed settings, seed. `sizes` are those of the training sets."""
    if part == "search":
        yield from ((model, change, seed) for seed in range(seeds) for model, change in grid())
    elif part == "table3":
        yield from ((model, {}, seed) for seed in range(seeds) for model in TABLE3)
    elif part == "chosen":
        models = ("BM", "BM + OT", "BM + OT + LC")
        settings = {model: chosen(runs, name, model, seeds) for model in models}
        yield from ((m, c, seed) for seed in range(seeds) for m, c in settings.items() if c is not None)
    elif part == "table5":
        for seed in range(seeds):
            yield from (("BM", scheme_change(scheme, sizes), seed) for scheme in ("all", "first-n"))
    elif part == "large":
        yield from ((model, change, 0) for change in ({}, LONGER) for model in LARGE)


def scheme_change(scheme: str, sizes: Any) -> Settings:
    """Return the change to a scheme; none if the rule takes it anyway."""
    return {} if choose_scheme(sizes) == scheme else {"loss__scheme": scheme}


def runs_of(result: dict[str, Any], data: str, model: str, change: Settings | None = None, seeds: int = 3) -> list[Run]:
    """Return the runs of a model with some settings on a set, by seed."""
    keys = [key_of(data, model, change or {}, seed) for seed in range(seeds)]
    return [result["runs"][key] for key in keys if key in result["runs"]]


def mean_of(runs: list[Run], measure: str, part: str = "test") -> float:
    """Return the mean of a measure over seeds."""
    return float(np.mean([run[part][measure] for run in runs]))


def interval(runs: list[Run], measure: str = "F1", part: str = "test") -> str:
    """Return the mean of a measure with its interval over the seeds."""
    return in_words([run[part][measure] for run in runs])


def difference(ours: list[Run], theirs: list[Run], part: str = "test") -> str:
    """Return the mean difference in micro-F1 of runs with the same seeds, with its interval."""
    return in_words([a[part]["F1"] - b[part]["F1"] for a, b in zip(ours, theirs, strict=True)], "+.1f")
