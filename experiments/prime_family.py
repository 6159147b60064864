"""Linear trees, classifiers and ensembles beside PRIME: one more family of rows of the PRIME experiment.

In: a set of `prime_data`, the row that PRIME chose, a seed. Out: measures on the test rows, and rankings.
"""

from __future__ import annotations

from typing import Any

from experiments.prime_runs import encoder_of, measures, new_model, rows_of, the_set, train
from tagwood import ConcatEncoder, Ensemble, LinearTree, Ranking, TfidfEncoder
from tagwood.neural.prime.label_index import LabelIndex

Found = dict[str, tuple[dict[str, Any], Ranking]]


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
    both = Ensemble([LinearTree(seed=seed, threads=1), prime]).fit(
        data.texts, data.Y, label_texts=data.label_texts
    )
    record, ranking = _measured(name, both)
    assert both.joint_ is not None
    return {
        "tree + PRIME": ({**record, "shares": [round(float(one), 3) for one in both.joint_.shares]}, ranking)
    }


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
