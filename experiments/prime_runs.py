"""The models that the PRIME experiment trains, one function per kind of row of its tables.

In: a set of `prime_data`, a row's name, a seed. Out: measures on the test rows, and the ranking behind them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from experiments.prime_data import LabelledTexts, read_set
from tagwood import ConcatEncoder, Ensemble, LinearTree, PrototypeModel, Ranking, TextEncoder, TfidfEncoder
from tagwood.metrics import evaluate
from tagwood.neural.prototype_settings import Settings, settle

MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "R@100")
EPOCHS = {"debian-depends": 8, "tibkat-gnd-en": 8, "yso-titles": 8}
RATES = {"debian-depends": 3e-3, "tibkat-gnd-en": 3e-3, "yso-titles": 1e-3}
CURVE_ROWS = 1000  # test rows that P@1 is measured on after each epoch


def base(name: str, preset: str = "prime-lite", **changes: Any) -> Settings:
    """Return the settings of all rows: PRIME-lite, the bag encoder."""
    rate = RATES[name]
    return settle(preset, "bag", epochs=EPOCHS[name], batch_size=256, learning_rate=rate, **changes)


def rows_of(name: str) -> dict[str, Settings]:
    """Return the settings of each row of the tables, by name."""
    plain, text = base(name, centroids="momentum"), base(name, "ngame")

    def prototype(**changes: Any) -> Settings:
        return plain._replace(prototype=replace(plain.prototype, **changes))

    def loss(**changes: Any) -> Settings:
        return plain._replace(loss=replace(plain.loss, **changes))

    return {
        "dual encoder, margin 0.3": text,
        "dual encoder, margin 0.1": text._replace(loss=replace(text.loss, high=0.1)),
        "dual encoder, shuffled batches": base(name, "dual-encoder"),
        "momentum": plain,
        "leave-one-out": prototype(centroids="leave-one-out"),
        "no centroids": prototype(centroids="none"),
        "no free vectors": prototype(free_vectors=0),
        "text alone, PRIME's losses": prototype(centroids="none", free_vectors=0),
        "dynamic margin": loss(margin="dynamic"),
        "dynamic margin, inverted": loss(margin="dynamic", uncertain="invert"),
        "no L(q, text)": loss(texts=0.0),
        "no L(text, q)": loss(queries=0.0),
        "no R": loss(regulariser=0.0),
        "R with a hinge": loss(hinge=True),
        "uniform positives": plain._replace(batches=replace(plain.batches, by_propensity=False)),
        "shuffled batches": plain._replace(batches=replace(plain.batches, clustered=False)),
        "two positives": plain._replace(batches=replace(plain.batches, positives=2)),
        "64 free vectors": prototype(free_vectors=64),
        "512 free vectors": prototype(free_vectors=512),
        "free vectors by label texts": prototype(clusters="texts"),
    }


@lru_cache(maxsize=1)
def the_set(name: str) -> LabelledTexts:
    """Return a set, read once."""
    return read_set(name)


@lru_cache(maxsize=1)
def _encoder(name: str, seed: int) -> TextEncoder:
    return new_encoder(the_set(name), seed)


def new_encoder(data: LabelledTexts, seed: int) -> TextEncoder:
    """Return the encoder of all rows, with its tokenizer and first weights."""
    encoder = TextEncoder("bag", dimension=128, vocabulary=8000, seed=seed, threads=1)
    return encoder.fit([*data.texts, *data.label_texts])


def train(
    data: LabelledTexts, settings: Settings, encoder: TextEncoder, seed: int, curve: bool = True
) -> PrototypeModel:
    """Return a trained model; with `curve`, its history has P@1 on some test rows after each epoch.

    The curve is for looking at: weights of the last epoch are used, whatever it says.
    """
    model = PrototypeModel(
        preset="prime-lite",
        encoder=encoder,
        prototype=settings.prototype,
        loss=settings.loss,
        batches=settings.batches,
        training=settings.training,
        seed=seed,
        threads=1,
    )
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


def run_row(name: str, row: str, seed: int) -> tuple[dict[str, Any], Ranking]:
    """Train the model of a row and measure it."""
    data = the_set(name)
    model = train(data, rows_of(name)[row], _encoder(name, seed), seed)
    ranking = model.rank(data.test_texts, k=100)
    assert model.history_ is not None
    record = {**measures(data, ranking), "steps": model.history_.steps, "curve": model.curve_}  # type: ignore[attr-defined]
    return record, ranking


def run_family(name: str, seed: int) -> dict[str, tuple[dict[str, Any], Ranking]]:
    """Train PRIME with the centroids of its choice, the tree, and what is made of both; measure all."""
    data = the_set(name)
    encoder = _encoder(name, seed)
    prime = train(data, base(name), encoder, seed)
    tfidf = TfidfEncoder(threads=1).fit(data.texts)
    tree = LinearTree(seed=seed, threads=1).fit(tfidf.transform(data.texts), data.Y)
    both = ConcatEncoder([tfidf, prime.encoder_])
    mixed = LinearTree(seed=seed, threads=1).fit(both.transform(data.texts), data.Y)
    classifiers = prime.with_classifiers(data.texts, data.Y)
    ready = {
        "PRIME": prime,
        "linear tree": Ensemble([(tfidf, tree)]),
        "tree on TF-IDF + encoder": Ensemble([(both, mixed)]),
        "PRIME (W)": classifiers,
        "PRIME + PRIME (W)": Ensemble([prime, classifiers]),
        "tree + PRIME": Ensemble([(tfidf, tree), prime]),
        "tree + PRIME + PRIME (W)": Ensemble([(tfidf, tree), prime, classifiers]),
    }
    found = {}
    for row, model in ready.items():
        ranking = model.rank(data.test_texts, k=100)
        found[row] = ({**measures(data, ranking)}, ranking)
    assert prime.history_ is not None
    more = {"centroids": prime.centroids_, "trials": prime.trials_, "curve": prime.curve_}  # type: ignore[attr-defined]
    found["PRIME"][0].update(more, steps=prime.history_.steps)
    return found
