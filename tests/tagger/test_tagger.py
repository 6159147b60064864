"""`Tagger`: names in, names out, whatever form the labels have; saved and loaded; masked and renamed."""

import inspect

import numpy as np
import pytest
from library import make_library
from scipy import sparse

from tagwood import LabelVocab, LinearTree, Tag, Tagger, TfidfEncoder, evaluate, load
from tagwood.errors import InputError, NotFittedError, StorageError
from tagwood.tagger import GroupRule, SetRules


def small(**options):
    return Tagger(model=LinearTree(threads=1), **options)


def test_tag_returns_one_tags_per_text_whether_it_gets_one_text_or_many(tagger):
    one, many = tagger.tag("oak bark"), tagger.tag(["oak bark", "comet orbit"])
    assert [len(one), len(many)] == [1, 2]
    assert one[0] == many[0] == tagger.tag_one("oak bark")
    assert [tags.names[0] for tags in many] == ["trees", "stars"]
    assert isinstance(one[0][0], Tag)


def test_names_ids_sets_and_matrices_give_the_same_answers(library):
    texts, names = library
    order = list(dict.fromkeys(name for row in names for name in row))
    ids = [[order.index(name) for name in row] for row in names]
    matrix = sparse.lil_array((len(texts), len(order)))
    for row, labels in enumerate(ids):
        matrix[row, labels] = 1
    vocab = LabelVocab.from_names(order)
    ways = [(names, None), (ids, vocab), ([set(row) for row in names], vocab), (matrix, vocab)]
    answers = [small().fit(texts, labels, vocab=table).tag("salt wave oak") for labels, table in ways]
    assert all(answer == answers[0] for answer in answers)


def test_uris_and_languages_come_back_as_they_went_in(library):
    texts, names = library
    order = ["trees", "water", "stars", "stones"]
    uris = [f"http://example.org/{name}" for name in order]
    vocab = LabelVocab.from_names(order, uris=uris, languages={"de": ["Bäume", "Wasser", "Sterne", ""]})
    tagger = small().fit(texts, [[f"http://example.org/{name}" for name in row] for row in names], vocab=vocab)
    assert tagger.tag_one("oak", k=1, language="de")[0][:3] == (0, "Bäume", "http://example.org/trees")
    assert tagger.tag_one("granite", k=1, language="de")[0].name == "stones"


def test_scores_are_probabilities_that_hold_on_new_rows(tagger):
    texts, names = make_library(300, seed=1)
    tags = tagger.tag(texts, k=4)
    pairs = [(tag.score, tag.name in row) for row, found in zip(names, tags, strict=True) for tag in found]
    scores, hits = np.array(pairs).T
    assert abs(scores.mean() - hits.mean()) < 0.05
    assert scores.min() >= 0
    assert scores.max() <= 1


def test_promises_and_thresholds_cut_sets(tagger):
    texts, names = make_library(300, seed=2)
    for promise in ("precision>=0.8", "f1"):
        tags = tagger.tag(texts, promise=promise)
        right = sum(tag.name in row for row, found in zip(names, tags, strict=True) for tag in found)
        assert right >= 0.8 * sum(map(len, tags))
    assert all(tag.score >= 0.5 for found in tagger.tag(texts, threshold=0.5) for tag in found)
    Y = tagger.predict(texts)
    assert Y.shape == (300, 4)
    assert set(np.unique(Y.data)) == {1.0}


def test_a_promise_without_probabilities_says_what_to_do(library):
    plain = small(sets=SetRules(holdout=0.0)).fit(*library)
    with pytest.raises(InputError, match=r"a promise needs probabilities.*calibrate"):
        plain.tag("oak", promise="f1")
    assert plain.predict(["oak bark leaf"]).sum() == 1
    plain.calibrate(*make_library(200, seed=3))
    assert plain.tag_one("oak bark leaf", promise="f1").names == ["trees"]


def test_refitting_uses_all_rows_and_not_refitting_keeps_the_held_out_ones_unseen(library):
    texts, names = library
    assert small().fit(texts, names).label_counts_.sum() == sum(map(len, names))
    kept = small(sets=SetRules(refit=False)).fit(texts, names)
    assert kept.label_counts_.sum() < sum(map(len, names))
    assert kept.probabilities_.held_out.n_rows == 50


def test_restrict_and_exclude_take_names_and_ids(tagger):
    first = tagger.tag_one("oak bark", k=1)[0]
    assert "trees" not in tagger.tag_one("oak bark", exclude=["trees"]).names
    assert "trees" not in tagger.tag_one("oak bark", exclude=[first.label]).names
    assert tagger.tag_one("oak bark", restrict=["water", "stars"]).names in (
        ["water", "stars"],
        ["stars", "water"],
    )


def test_masked_labels_are_not_suggested_and_ids_stay(library):
    changed = small().fit(*library)
    label = changed.find("trees")
    changed.update_labels(rename={"water": "Gewässer"}, mask=["trees"])
    assert "trees" not in changed.tag_one("oak bark leaf").names
    assert changed.tag_one("sea wave", k=1).names == ["Gewässer"]
    changed.update_labels(unmask=["trees"])
    assert changed.tag_one("oak bark leaf", k=1)[0].label == label


def test_renaming_to_a_name_in_use_is_refused(library):
    with pytest.raises(InputError, match="names of their own; got 'water' twice"):
        small().fit(*library).update_labels(rename={"trees": "water"})


def test_a_saved_tagger_gives_the_same_answers(tagger, tmp_path):
    tagger.save(tmp_path / "model", notes="first")
    for loaded in (Tagger.load(tmp_path / "model", verify=True), load(tmp_path / "model")):
        texts = make_library(50, seed=4)[0]
        assert loaded.rank(texts) == tagger.rank(texts)
        assert loaded.tag(texts, promise="f1") == tagger.tag(texts, promise="f1")
        assert loaded.explain("oak sea", "trees") == tagger.explain("oak sea", "trees")
        assert repr(loaded) == "Tagger(encoder=TfidfEncoder(), model=LinearTree(threads=1))"
    with pytest.raises(StorageError):
        tagger.save(tmp_path / "model")


def test_loading_another_model_as_a_tagger_is_refused(tmp_path):
    from tagwood import save

    save(LinearTree(threads=1).fit(np.eye(2), [[0], [1]]), tmp_path / "tree")
    with pytest.raises(InputError, match="must hold a Tagger; got LinearTree"):
        Tagger.load(tmp_path / "tree")


def test_labels_of_groups_are_worked_out_for_rows(library):
    texts, names = library
    boxes = [str(row // 3) for row in range(len(texts))]
    together: dict[str, set[str]] = {}
    for box, row in zip(boxes, names, strict=True):
        together.setdefault(box, set()).update(row)
    grouped = small(groups=GroupRule(steps=10)).fit(texts, [together[box] for box in boxes], boxes)
    new_texts, new_names = make_library(200, seed=5)
    Y = [[grouped.find(name) for name in row] for row in new_names]
    assert evaluate(Y, grouped.rank(new_texts), metrics=["P@1"])["P@1"] > 0.95
    assert grouped.measures_ is None  # the true labels of rows are unknown


@pytest.mark.parametrize(
    ("rule", "shares"),
    [(GroupRule("eagle"), True), (GroupRule("eagle", soft=False), False), (GroupRule(method="baseline"), False)],
)
def test_a_tree_learns_from_shares_of_labels_unless_told_not_to(library, monkeypatch, rule, shares):
    given = []
    fit = LinearTree.fit

    def watched(self, X, Y, **options):
        given.append(options.get("sample_weight"))
        return fit(self, X, Y, **options)

    watched.__signature__ = inspect.signature(fit)
    monkeypatch.setattr(LinearTree, "fit", watched)
    texts, names = library
    small(groups=rule).fit(texts, names, [str(row // 3) for row in range(len(texts))])
    assert [weights is not None for weights in given] == [shares, shares]  # held-out groups, then all
    assert not shares or np.any((given[0].data > 0) & (given[0].data < 1))


def test_the_parts_that_were_passed_stay_unfitted(library):
    encoder, model = TfidfEncoder(), LinearTree(threads=1)
    Tagger(encoder, model).fit(*library)
    assert not hasattr(model, "trees_")
    with pytest.raises(NotFittedError):
        encoder.transform(["oak"])


def test_same_seed_same_tagger(library):
    a, b = (small(seed=3).fit(*library) for _ in range(2))
    texts = make_library(50, seed=6)[0]
    assert a.rank(texts) == b.rank(texts)
    assert a.fingerprint_ == b.fingerprint_


def test_texts_without_known_words_and_empty_texts_do_not_fail(tagger):
    assert [len(tags) for tags in tagger.tag(["", "zzz qqq", "\x00"])] == [4, 4, 4]
    assert tagger.tag([]) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, x, y: t.fit(x, y[:-1]), "one entry for each of the 1,000 texts; got 999"),
        (lambda t, x, y: t.fit("a text", y), "texts must be one text per row; got a single text"),
        (lambda t, x, y: t.fit(x, [1.5] * 1000), "or one label, for each text; got 1.5, a float"),
        (lambda t, x, y: t.fit(x, [[1.5]] * 1000), "a label must be a name, a URI or an id; got 1.5"),
        (lambda t, x, y: t.fit(x, [["a"], [1]] * 500), "label names and label ids are mixed"),
        (lambda t, x, y: t.fit(x, y, vocab=LabelVocab.from_names(["oak"])), "is not in the vocabulary"),
        (
            lambda t, x, y: small(sets=SetRules(holdout=2.0)).fit(x, y),
            "holdout must be a number from 0.0 to 0.9",
        ),
        (lambda t, x, y: Tagger(model=LinearTree(lam=3.0)).fit(x, y), "lam must be a number from 0 to 2"),
    ],
)
def test_misuse_of_fit_is_named(library, call, message):
    with pytest.raises(InputError, match=message):
        call(small(), *library)


def test_misuse_of_answers_is_named(tagger):
    with pytest.raises(NotFittedError, match="must be fitted first"):
        Tagger().tag("oak")
    with pytest.raises(InputError, match="tag_one takes one text; got list"):
        tagger.tag_one(["oak"])
    with pytest.raises(InputError, match="Did you mean 'trees'"):
        tagger.find("treez")
    with pytest.raises(InputError, match="labels must be a collection; got 'trees'"):
        tagger.tag("oak", exclude="trees")
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        tagger.tag("oak", k=0)


def test_a_new_label_with_a_description_is_suggested_at_once_and_survives_storage(library, tmp_path):
    grown = small().fit(*library)
    before = grown.tag_one("granite quarry")
    grown.update_labels(texts={"tides": "tide wave moon", "moons": "moon night"})
    assert grown.find("tides") == 4
    assert grown.tag_one("tide wave moon", k=2, restrict=["tides", "trees"]).names[0] == "tides"
    assert "tides" in grown.tag_one("tide wave moon", k=5).names
    assert "tides" not in grown.tag_one("tide wave moon", k=5, exclude=["tides"]).names
    assert grown.tag_one("granite quarry")[: len(before)] == before
    assert grown.explain("tide wave moon", "tides").suggested
    grown.save(tmp_path / "m")
    again = Tagger.load(tmp_path / "m", verify=True)
    assert again.tag(["tide wave moon"]) == grown.tag(["tide wave moon"])
    assert again.predict(["tide wave moon"]).shape == (1, 6)
    again.update_labels(mask=["tides"])
    assert "tides" not in again.tag_one("tide wave moon").names


def test_descriptions_are_for_labels_without_training_texts(library):
    with pytest.raises(InputError, match="only labels without training texts take descriptions; got 'trees' with"):
        small().fit(*library).update_labels(texts={"trees": "oak"})


def test_interpolated_trees_are_built_where_lam_is_above_zero(library):
    model = LinearTree(arity=2, max_leaf_size=1, lam=2.0, threads=1)
    shaped = Tagger(model=model).fit(*library)
    assert shaped.tag_one("oak bark", k=1).names == ["trees"]
