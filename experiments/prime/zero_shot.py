"""Labels that PRIME never saw: a tenth is taken out of training and added by their texts.

In: a set of `data` and a seed. Out: where the new labels are ranked, and what the others lose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.prime.data import LabelledTexts
from experiments.prime.runs import new_encoder, rows_of, the_set, train
from tagwood import Ranking, TfidfEncoder
from tagwood.neural.prime.settings import PrototypeSettings


def run_zero_shot(name: str, seed: int, kind: str = "bag") -> dict[str, Any]:
    """Train without a tenth of the labels, add them by their texts, and see where they are ranked."""
    return measure_new_labels(the_set(name), rows_of(name, kind)["momentum"], seed, kind)


def measure_new_labels(
    whole: LabelledTexts, settings: PrototypeSettings, seed: int, kind: str, weight: float | None = None
) -> dict[str, Any]:
    """Return where labels that a model never saw are ranked on the test rows of a set."""
    n_labels = whole.Y.shape[1]
    order = np.random.default_rng([seed, 5]).permutation(n_labels)
    new, old = np.sort(order[: n_labels // 10]), np.sort(order[n_labels // 10 :])
    data = whole.without_labels(old)
    model = train(data, settings, new_encoder(data, seed, kind), seed, curve=False)
    Y_old, Y_new = whole.Y_test[:, old], whole.Y_test[:, new]
    before = model.rank(whole.test_texts, k=1)
    names = [whole.label_texts[label] for label in new]
    ids = model.add_labels(names, weight=weight)
    rows = np.flatnonzero(np.diff(Y_new.tocsr().indptr))
    texts = [whole.test_texts[row] for row in rows]
    true = Y_new[rows]
    alone = _recall(model.rank(texts, k=10, restrict=ids), true, old.size)
    among = _recall(model.rank(texts, k=10), true, old.size)
    tfidf = TfidfEncoder(ngrams=(1, 1), threads=1).fit([*data.texts, *whole.label_texts])
    queries, labels = tfidf.transform(texts), tfidf.transform([*data.label_texts, *names])
    by_words = {
        "alone": _recall(Ranking.from_csr(queries @ labels[old.size :].T, 10), true, 0),
        "among": _recall(Ranking.from_csr(queries @ labels.T, 10), true, old.size),
    }
    seen_rows = np.flatnonzero(np.diff(Y_old.tocsr().indptr))
    after = model.rank(whole.test_texts, k=1)
    hit = [_right(ranking, Y_old, seen_rows) for ranking in (before, after)]
    strict = _right(after, sparse.hstack([Y_old, Y_new]), seen_rows)
    return {
        "new labels": int(new.size),
        "test rows": int(rows.size),
        "R@10 among new labels": alone,
        "R@10 among all labels": among,
        "TF-IDF, R@10 among new labels": by_words["alone"],
        "TF-IDF, R@10 among all labels": by_words["among"],
        "chance, R@10 among new labels": round(1000 / new.size, 3),
        "P@1 of seen labels before": hit[0],
        "P@1 of seen labels after": hit[1],
        "P@1 after, new labels count too": strict,
    }


def _recall(ranking: Ranking, true: Any, shift: int) -> float:
    """Return R@10 in percent; label ids of the ranking are `shift` more than those of `true`."""
    places = true.tocsr()
    total = []
    for row in range(ranking.n_rows):
        wanted = set(places.indices[places.indptr[row] : places.indptr[row + 1]] + shift)
        got = set(ranking.labels[ranking.indptr[row] : ranking.indptr[row + 1]].tolist())
        total.append(len(wanted & got) / len(wanted))
    return round(100 * float(np.mean(total)), 3)


def _right(ranking: Ranking, Y: Any, rows: NDArray[np.int64]) -> float:
    """Return how often the first label is right, in percent; ids beyond Y are wrong."""
    first = ranking.labels[ranking.indptr[rows]]
    known = first < Y.shape[1]
    hits = np.zeros(rows.size)
    hits[known] = Y.tocsr()[rows[known], first[known]]
    return round(100 * float(hits.mean()), 3)
