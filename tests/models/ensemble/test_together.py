"""Labels that go together: probabilities of candidates that depend on the other candidates of the row."""

from dataclasses import replace

import numpy as np
import pytest
from ensemble_problem import rows_of_families
from scipy import sparse

from tagwood import Ensemble, LabelVocab, LinearTree, Tagger
from tagwood.errors import InputError
from tagwood.metrics import evaluate
from tagwood.models.ensemble.fusion import Candidates
from tagwood.models.ensemble.together import LabelPairs, LabelsTogether
from tagwood.models.ensemble.trial import TOGETHER, Trial, learn_together, sigmoid
from tagwood.models.name_matcher import NameMatcher


def train(problem, n_rows=700, **options):
    texts, labels, names = problem
    members = [LinearTree(threads=1), NameMatcher(threads=1)]
    options = {"prune": False, "threads": 1, **options}
    return Ensemble(members, **options).fit(texts[:n_rows], labels[:n_rows], label_texts=names)


@pytest.fixture(scope="module")
def families():
    return rows_of_families()


@pytest.fixture(scope="module")
def fitted(families):
    """Do not change it: all tests share it."""
    return train(families)


def test_labels_that_support_each_other_are_ranked_better(fitted, families):
    texts, labels, _ = families
    report = fitted.report_[-1]
    assert (report.name, report.used) == (TOGETHER, True)
    assert report.lost > 2 * report.error
    alone = train(families, fusion="boosted")
    assert alone.together_ is None
    assert alone.report_[-1].name != TOGETHER
    found = [evaluate(labels[700:], model.rank(texts[700:], 2), metrics=["P@2"])["P@2"] for model in (alone, fitted)]
    assert found[1] > found[0] + 0.05
    estimate = evaluate(fitted.held_out_.truth, fitted.held_out_.ranking, metrics=["P@2"])["P@2"]
    assert estimate == pytest.approx(found[1], abs=0.06)


def test_it_is_left_out_where_it_does_not_help():
    rng = np.random.default_rng(0)
    n_rows, n_labels, k = 600, 40, 10
    labels = np.concatenate([np.sort(rng.permutation(n_labels)[:k]) for _ in range(n_rows)]).astype(np.int32)
    cells = Candidates(np.arange(0, n_rows * k + 1, k, dtype=np.int64), labels, n_labels)
    logits = rng.normal(-1, 2, labels.size)
    right = rng.random(labels.size) < sigmoid(logits)  # nothing is to be added to the log odds
    features = np.column_stack([logits, *rng.random((5, labels.size))]).astype(np.float32)
    Y = sparse.csr_array((rng.random((900, n_labels)) < 0.1).astype(np.float32))
    n_true = right.reshape(n_rows, k).sum(axis=1)
    found = learn_together(Trial(cells, features, right, n_true, ((n_rows, LabelPairs.of(Y)),)), [0], logits)
    assert found.together is None
    assert not found.report.used
    np.testing.assert_array_equal(found.logits, logits)


def test_batches_equal_single_rows_for_any_number_of_threads(fitted, families):
    texts = families[0][700:760]
    whole = fitted.rank(texts, 10)
    assert [fitted.rank([text], 10)[0] for text in texts] == list(whole)
    again = Ensemble.from_state(fitted.state()).set_params(threads=3)
    assert list(again.rank(texts, 10)) == list(whole)


def test_only_allowed_labels_tell_of_each_other(fitted, families):
    text = families[0][700]
    allowed = list(range(0, 60, 2))
    assert {label for label, _ in fitted.rank([text], 50, restrict=allowed)[0]} <= set(allowed)


def test_the_label_that_tells_most_is_of_the_same_family(fitted, families):
    texts, labels, _ = families
    same = []
    for text, own in zip(texts[700:740], labels[700:740], strict=True):
        evidence = fitted.evidence([text], own[0])
        added = sum(one.contribution for one in evidence.members)
        assert evidence.base + added + evidence.together == pytest.approx(evidence.log_odds)
        assert dict(fitted.rank([text], 10)[0])[own[0]] == pytest.approx(1 / (1 + np.exp(-evidence.log_odds)), abs=1e-6)
        same.append(evidence.partner == own[1])
    assert np.mean(same) > 0.6  # or the label that is named for nothing, which speaks against it


def test_a_tagger_explains_stores_and_grows_it(families, tmp_path):
    texts, labels, names = families
    tagger = Tagger(model=LinearTree(threads=1), quality="balanced")
    tagger.fit(texts[:700], labels[:700], vocab=LabelVocab.from_names(names))
    assert tagger.members()[-1].used
    found = tagger.explain(texts[700], labels[700][0])
    assert found.members[-1].member == TOGETHER
    assert names[labels[700][1]] in found.members[-1].reason
    assert found.base + sum(one.contribution for one in found.members) == pytest.approx(found.log_odds)
    tagger.save(tmp_path / "model")
    assert Tagger.load(tmp_path / "model").tag(texts[700:720]) == tagger.tag(texts[700:720])


def test_new_labels_are_ranked_beside_the_old_ones(families):
    ensemble = train(families)
    before = ensemble.rank(families[0][700:710], 3)
    (new,) = ensemble.add_labels(["zebra"])
    assert list(ensemble.rank(families[0][700:710], 3)) == list(before)
    assert ensemble.rank(["zebra"], 1).labels.tolist() == [new]


def test_pairs_are_limited_to_those_that_occur_most_often():
    rng = np.random.default_rng(0)
    Y = sparse.csr_array((rng.random((500, 120)) < 0.3).astype(np.float32))
    pairs = LabelPairs.of(Y)
    assert np.diff(pairs.indptr).max() == 50
    counts = (Y.T @ Y).toarray()
    np.fill_diagonal(counts, 0)
    for label in (0, 7):
        kept = pairs.counts[pairs.indptr[label] : pairs.indptr[label + 1]]
        assert sorted(kept) == sorted(counts[label])[-50:]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("indptr", lambda a: a[::-1].copy()),
        ("counts", lambda a: -a),
        ("rows", lambda a: a + 10_000),
    ],
)
def test_broken_stored_pairs_are_refused(fitted, name, change):
    state = fitted.together_.state()
    broken = replace(state, arrays={**state.arrays, name: change(state.arrays[name])})
    with pytest.raises(InputError, match="fit together"):
        LabelsTogether.from_state(broken, 2)
