"""Every metric against loops that read like the definitions in docs/reference/metrics.md, to 1e-9."""

from math import log, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tagwood import Ranking
from tagwood.metrics import LabelCounts, evaluate, evaluate_sets

N_LABELS = 9
KS = (1, 3, 5, 20)


def ratio(over, under):
    return over / under if under else 0.0


def mean(values):
    values = list(values)
    return ratio(sum(values), len(values))


def hits(true, ranked, k):
    return sum(label in true for label in ranked[:k])


def dcg(gains):
    return sum(gain / log2(place + 1) for place, gain in enumerate(gains, start=1))


def weighted_hits(true, ranked, k, weights):
    return [weights[label] if label in true else 0.0 for label in ranked[:k]]


def best_hits(true, k, weights):
    return sorted((weights[label] for label in true), reverse=True)[:k]


def inverse_propensity(counts, n_rows, a, b):
    c = (log(n_rows) - 1) * (b + 1) ** a
    return [1 + c * (count + b) ** -a for count in counts]


def at_k(rows, k, weights, depths):
    with_labels = [(t, r) for t, r in rows if t]
    ideal = {len(t): dcg([1] * min(k, len(t))) for t, _ in rows}
    gains = [(weighted_hits(t, r, k, weights), best_hits(t, k, weights), len(t)) for t, r in with_labels]
    return {
        "P": mean(hits(t, r, k) / k for t, r in rows),
        "R": mean(hits(t, r, k) / len(t) for t, r in with_labels),
        "RP": mean(hits(t, r, k) / min(k, len(t)) for t, r in with_labels),
        "nDCG": mean(ratio(dcg([label in t for label in r[:k]]), ideal[len(t)]) for t, r in rows),
        "PSP": ratio(sum(sum(g) for g, _, _ in gains), sum(sum(best) for _, best, _ in gains)),
        "PSR": ratio(sum(sum(g) / n for g, _, n in gains), sum(sum(best) / n for _, best, n in gains)),
        "PSnDCG": ratio(sum(dcg(g) / ideal[n] for g, _, n in gains), sum(dcg(best) / ideal[n] for _, best, n in gains)),
        "coverage": ratio(
            len({label for t, r in rows for label in r[:k] if label in t}),
            len({x for t, _ in rows for x in t}),
        ),
        "depth": mean(max(depths[label] for label in r[:k]) for _, r in rows if r),
    }


def p_r_f1(hit, returned, true):
    return {"P": ratio(hit, returned), "R": ratio(hit, true), "F1": ratio(2 * hit, returned + true)}


def of_sets(rows):
    counts = [(len(t & r), len(r), len(t)) for t, r in rows]
    labels = range(N_LABELS)
    by_label = [
        (sum(x in t & r for t, r in rows), sum(x in r for _, r in rows), sum(x in t for t, _ in rows)) for x in labels
    ]
    seen = [c for c in by_label if c[1] + c[2]]
    found = {"hamming": mean(len(t ^ r) / N_LABELS for t, r in rows)}
    for what in ("P", "R", "F1"):
        found[f"micro-{what}"] = p_r_f1(*map(sum, zip(*counts, strict=True)))[what]
        found[f"example-{what}"] = mean(p_r_f1(*c)[what] for c in counts)
        found[f"macro-{what}"] = mean(p_r_f1(*c)[what] for c in seen)
        found[f"weighted-{what}"] = ratio(sum(p_r_f1(*c)[what] * c[2] for c in by_label), sum(c[2] for c in by_label))
    return found


label_sets = st.sets(st.integers(0, N_LABELS - 1))
label_lists = st.lists(st.integers(0, N_LABELS - 1), unique=True)


def to_ranking(lists):
    return Ranking.from_lists([[(x, 1 - i / 20) for i, x in enumerate(r)] for r in lists], N_LABELS)


def to_matrix(sets):
    return sparse.csr_array([[float(x in row) for x in range(N_LABELS)] for row in sets])


@settings(deadline=None)
@given(
    st.lists(st.tuples(label_sets, label_lists), min_size=1, max_size=6),
    st.lists(st.integers(0, 50), min_size=N_LABELS, max_size=N_LABELS),
    st.lists(st.integers(1, 30), min_size=N_LABELS, max_size=N_LABELS),
)
def test_metrics_at_k_equal_their_definitions(rows, counts, depths):
    report = evaluate(
        to_matrix([t for t, _ in rows]),
        to_ranking([r for _, r in rows]),
        metrics=[f"{m}@{k}" for m in at_k(rows, 1, [1] * N_LABELS, depths) for k in KS],
        train_labels=LabelCounts(np.array(counts), n_rows=50),
        propensity="amazon",
        label_depths=depths,
    )
    weights = inverse_propensity(counts, 50, 0.6, 2.6)
    for k in KS:
        for family, value in at_k(rows, k, weights, depths).items():
            assert report[f"{family}@{k}"] == pytest.approx(value, abs=1e-9), f"{family}@{k}"


@settings(deadline=None)
@given(st.lists(st.tuples(label_sets, label_lists), min_size=1, max_size=6), st.integers(1, 10))
def test_set_metrics_equal_their_definitions(rows, k):
    truth = to_matrix([t for t, _ in rows])
    ranking = to_ranking([r for _, r in rows])
    expected = of_sets([(t, set(r)) for t, r in rows])
    expected |= {f"{name}@{k}": value for name, value in of_sets([(t, set(r[:k])) for t, r in rows]).items()}
    report = evaluate(truth, ranking, metrics=expected)
    for name, value in expected.items():
        assert report[name] == pytest.approx(value, abs=1e-9), name
    plain = [name for name in expected if "@" not in name]
    sets = evaluate_sets(truth, ranking.to_sets(), metrics=plain)
    assert [sets[name] for name in plain] == [report[name] for name in plain]


def test_large_seeded_problem_equals_the_definitions_with_long_rows():
    rng = np.random.default_rng(3)
    rows = []
    for _ in range(300):
        true = set(rng.choice(N_LABELS, size=rng.integers(0, N_LABELS + 1), replace=False).tolist())
        rows.append((true, rng.permutation(N_LABELS)[: rng.integers(0, N_LABELS + 1)].tolist()))
    counts = rng.integers(0, 1000, N_LABELS)
    depths = rng.integers(1, 9, N_LABELS).tolist()
    expected = at_k(rows, 4, inverse_propensity(counts, 1000, 0.55, 1.5), depths)
    report = evaluate(
        [sorted(t) for t, _ in rows],
        to_ranking([r for _, r in rows]),
        metrics=[f"{name}@4" for name in expected],
        train_labels=LabelCounts(counts, n_rows=1000),
        label_depths=depths,
        threads=2,
    )
    for name, value in expected.items():
        assert report[f"{name}@4"] == pytest.approx(value, abs=1e-9), name
