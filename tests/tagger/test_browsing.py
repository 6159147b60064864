"""Label cards, views of the tree, the overview; and that a Tagger survives pickle, joblib and scikit-learn."""

import io
import pickle
from dataclasses import asdict

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from tagwood import LinearTree, SoftmaxTree, Tagger, TfidfEncoder
from tagwood.errors import InputError
from tagwood.tagger import SetRules
from tagwood.tagger.fitting import training_data


def test_a_card_shows_senses_neighbours_and_examples(tagger):
    card = tagger.label_card(0)
    tree = tagger.model_.trees_[0].tree
    assert [sense.leaf for sense in card.senses] == tree.leaves_of(0).tolist()
    assert card.rows == tagger.label_counts_[0]
    assert card.share == card.rows / tagger.n_rows_
    assert all(card.name in example.labels for example in card.examples)
    similarity = [one.similarity for one in card.neighbours]
    assert similarity == sorted(similarity, reverse=True)
    assert tagger.senses(0).senses == card.senses  # one implementation
    assert asdict(card)["senses"][0]["words"]


def test_the_tree_is_shown_from_any_node(tagger):
    tree = tagger.model_.trees_[0].tree
    root = tagger.tree_view(depth=20)
    assert [one.node for one in root.nodes] == list(range(tree.n_nodes))
    assert root.complete
    assert root.nodes[0].rows == tagger.label_counts_.sum()
    leaf = int(tree.leaves[-1])
    view = tagger.tree_view(leaf)
    assert {one.id for one in view.labels} == set(tree.leaf_labels(leaf).tolist())
    assert [one.node for one in view.path] == tree.path(leaf)[:-1]
    with pytest.raises(InputError, match="node must be"):
        tagger.tree_view(tree.n_nodes)
    with pytest.raises(InputError, match="tree must be"):
        tagger.tree_view(tree=1)


def test_models_without_a_tree_have_cards_and_an_overview(library):
    tagger = Tagger(model=SoftmaxTree(threads=1, epochs=1), keep_texts=0).fit(*library)
    card = tagger.label_card(0)
    assert card.senses == card.neighbours == card.examples == ()
    assert tagger.overview()["kind"] == "SoftmaxTree"


def test_the_overview_has_measures_of_held_out_rows(tagger):
    facts = tagger.overview()
    assert 0.5 < facts["metrics"]["P@1"] <= 1
    assert facts["tree"]["nodes"] == tagger.model_.trees_[0].tree.n_nodes
    assert facts["largest"][0]["rows"] == tagger.label_counts_.max()
    assert facts["pareto"] is None
    assert "tune" in facts["missing"]["pareto"]


def test_pickle_and_joblib_keep_the_answers(tagger, library):
    tagger.tree_view()
    texts = library[0][:5]
    file = io.BytesIO()
    joblib.dump(tagger, file)
    file.seek(0)
    for copy in (pickle.loads(pickle.dumps(tagger)), joblib.load(file)):
        assert copy.tag(texts) == tagger.tag(texts)
        assert copy.explain(texts[0], 0) == tagger.explain(texts[0], 0)


def test_scikit_learn_clones_and_searches(library):
    texts, labels = library
    tagger = Tagger(TfidfEncoder(threads=1), LinearTree(threads=1), sets=SetRules(holdout=0), keep_texts=0)
    copy = clone(tagger)
    assert copy is not tagger
    assert repr(copy) == repr(tagger)
    scores = cross_val_score(tagger, texts, labels, cv=2)
    assert np.all(scores > 0.3)
    search = GridSearchCV(tagger, {"encoder__ngrams": [(1, 1), (1, 2)], "model__C": [1.0, 2.0]}, cv=2).fit(
        texts, labels
    )
    assert search.best_score_ == pytest.approx(max(search.cv_results_["mean_test_score"]))
    assert search.predict(texts[:3]).shape[0] == 3


def test_a_dataset_is_fitted_as_its_texts_and_labels_are(tagger, library):
    texts, _ = library
    data = training_data(*library, None, None)
    again = Tagger(model=LinearTree(threads=1)).fit(data)
    assert again.tag(texts[:5]) == tagger.tag(texts[:5])
    with pytest.raises(InputError, match="passed alone"):
        again.fit(data, [["oak"]])
    with pytest.raises(InputError, match="labels must be given"):
        again.fit(texts)
