"""The models of the PRIME experiment: dual encoders, prototypes, linear trees, classifiers, ensembles.

In: a set of `data`, a row's name, a seed. Out: measures on the test rows, and the ranking behind them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from experiments.prime.data import LabelledTexts, read_set
from experiments.prime.states import kept_minilm
from tagwood import (
    ConcatEncoder,
    Ensemble,
    LinearTree,
    PrototypeModel,
    Ranking,
    TextEncoder,
    TfidfEncoder,
    evaluate,
)
from tagwood.neural.prime.label_index import LabelIndex
from tagwood.neural.prime.settings import PrototypeSettings

Found = dict[str, tuple[dict[str, Any], Ranking]]
MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "R@100")
EPOCHS = {"bag": 8, "minilm": 4}
MINILM_RATE = 5e-4
RATES = {"debian-depends": 3e-3, "tibkat-gnd-en": 3e-3, "yso-titles": 1e-3}
CURVE_ROWS = 1000  # test rows that P@1 is measured on after each epoch


def base(name: str, preset: str = "prime-lite", kind: str = "bag", **changes: Any) -> PrototypeSettings:
    """Return the settings of all rows: PRIME-lite; `kind` is the encoder."""
    rate = RATES[name] if kind == "bag" else MINILM_RATE
    return PrototypeModel(
        preset=preset, epochs=EPOCHS[kind], batch_size=256, learning_rate=rate, **changes
    ).resolved_settings()


def rows_of(name: str, kind: str = "bag") -> dict[str, PrototypeSettings]:
    """Return the settings of each row of the tables, by name."""
    plain, text = base(name, kind=kind, centroids="momentum"), base(name, "ngame", kind)

    def prototype(**changes: Any) -> PrototypeSettings:
        return replace(plain, prototype=replace(plain.prototype, **changes))

    def loss(**changes: Any) -> PrototypeSettings:
        return replace(plain, loss=replace(plain.loss, **changes))

    alone = prototype(centroids="none", free_vectors=0)
    return {
        "dual encoder, margin 0.3": text,
        "dual encoder, margin 0.1": replace(text, loss=replace(text.loss, high=0.1)),
        "dual encoder, shuffled batches": base(name, "dual-encoder", kind),
        "momentum": plain,
        "leave-one-out": prototype(centroids="leave-one-out"),
        "no centroids": prototype(centroids="none"),
        "no free vectors": prototype(free_vectors=0),
        "text alone, margin 0.3": alone,
        "text alone, margin 0.1": replace(alone, loss=replace(alone.loss, high=0.1)),
        "dynamic margin": loss(margin="dynamic"),
        "dynamic margin, inverted": loss(margin="dynamic", uncertain="invert"),
        "no L(q, text)": loss(texts=0.0),
        "no L(text, q)": loss(queries=0.0),
        "no R": loss(regulariser=0.0),
        "R with a hinge": loss(hinge=True),
        "uniform positives": replace(plain, batches=replace(plain.batches, by_propensity=False)),
        "shuffled batches": replace(plain, batches=replace(plain.batches, clustered=False)),
        "two positives": replace(plain, batches=replace(plain.batches, positives=2)),
        "64 free vectors": prototype(free_vectors=64),
        "512 free vectors": prototype(free_vectors=512),
        "free vectors by label texts": prototype(clusters="texts"),
    }


@lru_cache(maxsize=1)
def the_set(name: str) -> LabelledTexts:
    """Return a set, read once."""
    return read_set(name)


@lru_cache(maxsize=1)
def encoder_of(name: str, seed: int, kind: str = "bag") -> TextEncoder:
    """Return the encoder that all rows of a set begin with."""
    return new_encoder(the_set(name), seed, kind)


def new_encoder(data: LabelledTexts, seed: int, kind: str = "bag") -> TextEncoder:
    """Return the encoder of all rows, with its tokenizer and first weights."""
    if kind == "minilm":
        return kept_minilm(data.name, seed)
    encoder = TextEncoder("bag", dimension=128, vocabulary=8000, seed=seed, threads=1)
    return encoder.fit([*data.texts, *data.label_texts])


def new_model(settings: PrototypeSettings, encoder: TextEncoder, seed: int) -> PrototypeModel:
    """Return an unfitted model."""
    return PrototypeModel(preset=settings, encoder=encoder, seed=seed, threads=1)


def train(
    data: LabelledTexts, settings: PrototypeSettings, encoder: TextEncoder, seed: int, curve: bool = True
) -> PrototypeModel:
    """Return a trained model; with `curve`, its history has P@1 on some test rows after each epoch.

    The curve is only reported: the weights of the last epoch are used.
    """
    model = new_model(settings, encoder, seed)
    seen: list[float] = []

    def look(half: PrototypeModel) -> float:
        ranking = half.rank(data.test_texts[:CURVE_ROWS], k=1)
        seen.append(evaluate(data.Y_test[:CURVE_ROWS], ranking, metrics=["P@1"])["P@1"])
        return float(len(seen))  # always better: the last weights stay

    model.fit(data.texts, data.Y, label_texts=data.label_texts, evaluate=look if curve else None)
    model.curve_ = seen  # type: ignore[attr-defined]
    return model


def measures(data: LabelledTexts, ranking: Ranking) -> dict[str, Any]:
    """Return all measures in percent."""
    report = evaluate(data.Y_test, ranking, metrics=MEASURES, train_labels=data.Y)
    return {name: round(100 * report[name], 3) for name in MEASURES}


def run_row(name: str, row: str, seed: int, kind: str = "bag") -> tuple[dict[str, Any], Ranking]:
    """Train the model of a row and measure it."""
    data = the_set(name)
    model = train(data, rows_of(name, kind)[row], encoder_of(name, seed, kind), seed)
    ranking = model.rank(data.test_texts, k=100)
    assert model.history_ is not None
    record = {**measures(data, ranking), "steps": model.history_.steps, "curve": model.curve_}  # type: ignore[attr-defined]
    return record, ranking


def choose_row(name: str, seed: int, kind: str = "bag") -> tuple[str, dict[str, float]]:
    """Return the row that PRIME's own trials choose, and nDCG@5 of each trial on held-out training rows."""
    data, encoder, settings = the_set(name), encoder_of(name, seed, kind), base(name, kind=kind)
    model = new_model(settings, encoder, seed)
    found, trials = model.choose_settings(data.texts, data.Y, data.label_texts, encoder)
    return next(row for row, known in rows_of(name, kind).items() if known == found), trials


def run_family(name: str, row: str, seed: int) -> Found:
    """Train the tree; with the first seed, also what else is made of it and of PRIME as in `row`."""
    data = the_set(name)
    tfidf = TfidfEncoder(threads=1).fit(data.texts)
    tree = LinearTree(seed=seed, threads=1).fit(tfidf.transform(data.texts), data.Y)
    ready: dict[str, Any] = {"linear tree": Ensemble([(tfidf, tree)])}
    if seed == 0:
        prime = train(data, rows_of(name)[row], encoder_of(name, seed), seed, curve=False)
        both = ConcatEncoder([tfidf, prime.encoder_])
        mixed = LinearTree(seed=seed, threads=1).fit(both.transform(data.texts), data.Y)
        classifiers = prime.with_classifiers(data.texts, data.Y)
        ready |= {
            "tree on TF-IDF + encoder": Ensemble([(both, mixed)]),
            "PRIME (W)": classifiers,
            "PRIME + PRIME (W)": Ensemble([prime, classifiers]),
            "tree + PRIME, equal and not calibrated": Ensemble([(tfidf, tree), prime]),
        }
    return {one: _measured(name, model) for one, model in ready.items()}


def run_ensemble(name: str, row: str, seed: int, kind: str = "bag") -> Found:
    """Train the ensemble of tree and PRIME by one line: on nine tenths of the rows, calibrated on the others."""
    data = the_set(name)
    prime = new_model(rows_of(name, kind)[row], encoder_of(name, seed, kind), seed)
    both = Ensemble([LinearTree(seed=seed, threads=1), prime]).fit(data.texts, data.Y, label_texts=data.label_texts)
    record, ranking = _measured(name, both)
    return {"tree + PRIME": ({**record, "lost": [round(one.lost, 4) for one in both.report_]}, ranking)}


def run_untrained(name: str, kind: str) -> tuple[dict[str, Any], Ranking]:
    """Measure the encoder as it is: labels by the likeness of text and label text."""
    data, encoder = the_set(name), encoder_of(name, 0, kind)
    index = LabelIndex(encoder.transform(data.label_texts), threads=1)
    ranking = index.rank(encoder.transform(data.test_texts), 100)
    return measures(data, ranking), ranking


def _measured(name: str, model: Any) -> tuple[dict[str, Any], Ranking]:
    data = the_set(name)
    ranking = model.rank(data.test_texts, k=100)
    return measures(data, ranking), ranking
