"""Explanations: contributions add up, and why-not names the right place."""

import json

import numpy as np
import pytest
from library import WORDS, make_library
from scipy import sparse

from tagwood import LinearTree, Solver, Tagger, TfidfEncoder
from tagwood._sparse import check_features, csr_parts
from tagwood.errors import InputError
from tagwood.models.linear_tree.explanation import explain_label, find_pruning
from tagwood.tagger import SetRules
from tagwood.trees.label_tree import LabelTree


def random_problem(n_rows=120, n_labels=40, n_features=90, seed=0):
    random = np.random.default_rng(seed)
    X = sparse.random_array((n_rows, n_features), density=0.15, rng=random, dtype=np.float32)
    Y = [random.choice(n_labels, size=2, replace=False).tolist() for _ in range(n_rows)]
    return sparse.csr_array(X), [*Y[:-1], [n_labels - 1]]


MODELS = {
    "binary int8": LinearTree(arity=2, max_leaf_size=2, threads=1),
    "wide float32": LinearTree(arity=8, max_leaf_size=4, solver=Solver(weights="float32"), threads=1),
    "three trees, float16, sigmoid": LinearTree(
        n_trees=3,
        max_leaf_size=5,
        solver=Solver(link="sigmoid", loss="logistic", weights="float16"),
        threads=1,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_contributions_and_bias_add_up_to_the_margins_the_search_uses(name):
    X, Y = random_problem()
    model = MODELS[name].fit(X, Y)
    for row in range(5):
        x = csr_parts(check_features(X[row : row + 1]))
        for label in range(0, 40, 7):
            paths = explain_label(model, x, label)
            for path in paths:
                weights = model.trees_[path.tree]
                for step in path.steps:
                    output = (
                        step.child - weights.tree.child_ptr[step.node]
                        if step.child is not None
                        else weights.tree.leaf_labels(step.node).tolist().index(label)
                    )
                    node, out = np.array([[step.node], [output]], dtype=np.int32)
                    margin = weights.margins(x, np.zeros(1, dtype=np.int64), node, out, 1)[0]
                    assert step.contributions.sum() + step.bias == pytest.approx(margin, abs=1e-5)
                    assert step.margin == pytest.approx(margin, abs=1e-5)
            score = model.score_labels(X[row : row + 1], [[0, label]])[0]
            assert np.mean([path.score for path in paths]) == pytest.approx(score, abs=1e-5)


def test_weights_of_nodes_with_more_outputs_than_a_block_are_read():
    X, Y = random_problem(n_rows=700, n_labels=600)
    model = LinearTree(max_leaf_size=1000, threads=1).fit(X, Y)
    x = csr_parts(check_features(X[:1]))
    for label in (0, 255, 256, 599):
        score = model.score_labels(X[:1], [[0, label]])[0]
        assert explain_label(model, x, label)[0].score == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("width", [1, 3])
def test_a_label_is_called_pruned_exactly_where_the_beam_does_not_return_it(width):
    X, Y = random_problem(seed=1)
    model = LinearTree(arity=4, max_leaf_size=2, threads=1).fit(X, Y)
    tree = model.trees_[0].tree
    found = model.rank(X[:10], k=40, beam_width=width)
    cases = 0
    for row in range(10):
        x = csr_parts(check_features(X[row : row + 1]))
        returned = {label for label, _ in found[row]}
        for label in range(40):
            lost = find_pruning(model, x, label, beam_width=width)
            assert bool(lost) == (label not in returned)
            for where in lost:
                cases += 1
                assert where.node in tree.path(int(tree.leaves_of(label)[0]))
                assert where.competitor not in tree.path(int(tree.leaves_of(label)[0]))
                assert where.score <= where.competitor_score
    assert cases > 100


def test_masked_branches_do_not_compete():
    X, Y = random_problem(seed=2)
    model = LinearTree(arity=4, max_leaf_size=2, threads=1).fit(X, Y)
    x = csr_parts(check_features(X[:1]))
    allowed = np.zeros(40, dtype=bool)
    allowed[7] = True
    assert find_pruning(model, x, 7, beam_width=1, allowed=allowed) == []


def test_words_that_make_a_topic_speak_for_it_and_others_do_not(tagger):
    found = tagger.explain("oak bark sea", "trees")
    words = dict(found.words)
    assert found.suggested
    assert found.place == 1
    assert words["oak"] > 0
    assert words["bark"] > 0
    assert words["sea"] < min(words["oak"], words["bark"])
    assert set(found.paths[0].steps[-1].top_words) & set(WORDS["trees"])
    assert all("trees" in one.labels for one in found.similar)
    assert found.similar[0].similarity >= found.similar[-1].similarity > 0


def test_each_way_to_lose_a_label_is_named(library):
    texts, names = library
    from tagwood import LabelVocab

    order = [*WORDS, "unicorns"]
    tagger = Tagger(model=LinearTree(threads=1)).fit(texts, names, vocab=LabelVocab.from_names(order))

    def reason(text, label, **question):
        return tagger.explain(text, label, **question).verdict.reason

    for topic, words in WORDS.items():
        text = " ".join(words)
        others = [other for other in WORDS if other != topic]
        assert reason(text, topic) == "suggested"
        assert all(reason(text, other, k=1) == "beyond the limit" for other in others)
        assert all(reason(text, other, threshold=0.9) == "below the threshold" for other in others)
        assert reason(text, "unicorns", k=4) == "never in training"
    tagger.update_labels(mask=["water"])
    assert reason("sea wave", "water") == "masked"


def test_a_label_lost_in_the_tree_is_called_pruned_with_node_and_competitor():
    """64 topics of two words each in a binary tree: asked about one, the beam of 10 drops most of the others."""
    texts = [f"topic{number:02d} word{number:02d}" for number in range(64) for _ in range(3)]
    names = [[f"label{number:02d}"] for number in range(64) for _ in range(3)]
    model = LinearTree(arity=2, max_leaf_size=1, threads=1)
    tagger = Tagger(TfidfEncoder(ngrams=(1, 1)), model, sets=SetRules(holdout=0.0)).fit(texts, names)
    text = "topic05 word05"
    returned = {label for label, _ in tagger.rank([text], k=64)[0]}
    lost = [label for label in range(64) if label not in returned]
    assert len(lost) >= 50
    for label in lost:
        found = tagger.explain(text, label)
        assert found.verdict.reason == "pruned"
        tree = tagger.model_.trees_[0].tree
        assert found.verdict.node in tree.path(int(tree.leaves_of(label)[0]))
        assert isinstance(found.verdict.competitor, int)
        assert found.place is None


def test_labels_of_leaves_at_any_depth_are_followed():
    X, Y = random_problem(n_labels=6, seed=3)
    tree = LabelTree.from_nested([[0, 1], [[2], [3, 4, 5]]])
    model = LinearTree(threads=1).fit(X, Y, tree=tree)
    x = csr_parts(check_features(X[:1]))
    assert [len(explain_label(model, x, label)[0].steps) for label in (0, 2, 5)] == [2, 3, 3]
    returned = {label for label, _ in model.rank(X[:1], k=6, beam_width=1)[0]}
    for label in range(6):
        assert bool(find_pruning(model, x, label, beam_width=1)) == (label not in returned)


def test_hashed_features_are_named_by_the_words_of_the_text(library):
    tagger = Tagger(TfidfEncoder(hash_bits=16), LinearTree(threads=1), sets=SetRules(holdout=0.0)).fit(*library)
    words = dict(tagger.explain("oak bark", "trees").words)
    assert words["oak"] > 0
    assert not any(word.startswith("feature") for word in words)


def test_json_holds_every_contribution_and_text_is_readable(tagger):
    found = tagger.explain("oak bark sea", "water")
    content = json.loads(found.to_json())
    for path in content["paths"]:
        for step in path["steps"]:
            total = step["bias"] + sum(word["weight"] for word in step["words"])
            assert total == pytest.approx(step["margin"], abs=1e-5)
    assert content["verdict"]["reason"] == found.verdict.reason
    text = found.to_text()
    assert text.startswith("water: ")
    assert "Similar training texts" in text


def test_html_escapes_everything_that_comes_from_outside():
    texts, names = make_library(60)
    evil = '<script>alert("x")</script>'
    labels = [[evil] if "trees" in row else row for row in names]
    texts = [f"{text} <b>&amp;" for text in texts]
    tagger = Tagger(model=LinearTree(threads=1)).fit(texts, labels)
    html = tagger.explain('<img src="x" onerror="y"> oak', evil).to_html()
    assert "<script" not in html
    assert "<img" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;" in html


def test_a_model_without_texts_shows_none(library):
    tagger = Tagger(model=LinearTree(threads=1), keep_texts=0).fit(*library)
    assert tagger.explain("oak", "trees").similar == ()
    assert "examples" not in tagger.state().parts


def test_examples_cover_every_label_first(library):
    tagger = Tagger(model=LinearTree(threads=1), keep_texts=4).fit(*library)
    assert len(set(tagger.examples_.labels.tolist())) >= 3
    assert len(tagger.examples_.texts) == 4


def test_misuse_is_named(tagger):
    with pytest.raises(InputError, match="explain takes one text; got list"):
        tagger.explain(["oak"], "trees")
    with pytest.raises(InputError, match=r"the label must be in the vocabulary; got 'tres'. Did you mean 'trees'"):
        tagger.explain("oak", "tres")
