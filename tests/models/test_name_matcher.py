"""`NameMatcher`: labels by their names, with or without training rows; stems, storage, bad input."""

import builtins
import sys

import numpy as np
import pytest

import tagwood
from tagwood.errors import InputError, MissingExtraError, NotFittedError
from tagwood.models.base import explains_texts, finds_new_labels
from tagwood.models.name_index import light_stem, stems_of
from tagwood.models.name_matcher import NameMatcher
from tagwood.storage import State

NAMES = ["Oak", "Sea", "Fir tree", "Mercury (planet)", ["Rye bread", "Roggenbrot", "641.5"]]
TEXTS = [
    "an oak tree",
    "oaks in a wood",
    "salt in the sea",
    "the deep sea",
    "a wood",
    "an oak by the sea",
    "salt and pepper",
    "seas of the north",
]
Y = [[0], [0], [1], [1], [], [0, 1], [], [1]]


@pytest.fixture
def model():
    return NameMatcher(threads=1).fit(TEXTS, Y, label_names=NAMES)


def best(model, text, k=5):
    return model.rank([text], k).labels.tolist()


def test_a_label_without_rows_is_found_by_its_name(model):
    assert best(model, "a fir tree at night") == [2]
    assert best(model, "nothing of this") == []
    assert set(best(model, "an oak, a fir tree and the sea")) == {0, 1, 2}


def test_every_name_of_a_label_finds_it_once(model):
    for text in ("rye bread", "ein Roggenbrot", "shelf 641.5"):
        assert best(model, text) == [4]
    ranking = model.rank(["Roggenbrot is rye bread"])
    assert ranking.labels.tolist() == [4]
    assert ranking.scores[0] == max(model.rank(["Roggenbrot is rye bread"], 1).scores)


def test_qualifiers_in_brackets_are_not_part_of_a_name(model):
    assert best(model, "Mercury is hot") == [3]
    only = NameMatcher(threads=1).fit(TEXTS, Y, label_names=["Oak", "(sea)"])
    assert best(only, "sea") == [1]  # a name that is nothing else stays


def test_plurals_are_matched(model):
    assert best(model, "two fir trees") == [2]
    assert best(model, "OAKS") == [0]
    assert best(model, "an oak and two fir trees by the seas") == best(model, "an oak and two fir tree by the sea")
    model.add_labels(["Electric scooter", "Lily"])
    assert best(model, "electric scooters") == [5]
    assert best(model, "lilies") == [6]
    words = ("berries", "ties", "analysis", "as")
    assert [light_stem(word) for word in words] == ["berry", "tie", "analysis", "as"]


def test_a_stemmer_of_a_language(tmp_path):
    pytest.importorskip("Stemmer")
    texts = ["die alten Häuser", "ein Haus", "das Meer", "Meere und Häuser"]
    y = [[0], [0], [1], [0, 1]]
    names = ["Haus", "Meer", "Wanderung"]
    german = NameMatcher(language="german", threads=1).fit([*texts, "Wanderungen"], [*y, []], label_names=names)
    assert best(german, "Wanderungen") == [2]
    german.add_labels(["Nachtigall"])
    assert best(german, "zwei Nachtigallen") == [3]
    assert best(NameMatcher(threads=1).fit([*texts, "Wanderungen"], [*y, []], label_names=names), "Wanderungen") == []
    assert best(NameMatcher(language="de", threads=1).fit(texts, y, label_names=names), "Meere") == [1]


def test_an_unknown_language_is_named_before_texts_are_read():
    pytest.importorskip("Stemmer")

    def texts():
        raise AssertionError("read")
        yield

    with pytest.raises(InputError, match=r"language must be one of .*english.*; got 'klingon'. None works"):
        NameMatcher(language="klingon").fit(texts(), Y, label_names=NAMES)
    with pytest.raises(InputError, match="language must be the name of a language or None; got 3"):
        NameMatcher(language=3).fit(TEXTS, Y, label_names=NAMES)


def test_a_missing_stemmer_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with pytest.raises(MissingExtraError, match=r"tagwood\[stem\]"):
        NameMatcher(language="english").fit(TEXTS, Y, label_names=NAMES)
    assert stems_of(["seas"], None) == ["sea"]


def test_added_labels_are_found_at_once_and_old_answers_stay(model):
    before = model.rank(TEXTS)
    ids = model.add_labels(["Salt", ["North wind", "Bora"]])
    assert ids.tolist() == [5, 6]
    assert model.n_labels_ == 7
    assert best(model, "salt and pepper") == [5]
    assert best(model, "the bora blows") == [6]
    assert model.rank(TEXTS, exclude=ids).labels.tolist() == before.labels.tolist()
    np.testing.assert_array_equal(model.rank(TEXTS, exclude=ids).scores, before.scores)
    model.add_labels([])
    model.add_labels(["zinc"]).tolist()
    assert best(model, "zinc") == [7]


def test_a_stored_model_gives_the_same_answers_without_a_stemmer(tmp_path, monkeypatch):
    pytest.importorskip("Stemmer")
    model = NameMatcher(language="english", threads=1).fit(TEXTS, Y, label_names=NAMES)
    expected = model.rank(TEXTS, 5)
    tagwood.save(model, tmp_path / "model")
    imported = builtins.__import__

    def refuse(name, *rest):
        if name == "Stemmer":
            raise AssertionError("the stemmer was imported")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    loaded = tagwood.load(tmp_path / "model", verify=True)
    assert loaded.rank(TEXTS, 5) == expected
    assert loaded.weights_ == model.weights_
    monkeypatch.undo()
    loaded.add_labels(["Deep"])
    assert best(loaded, "deep") == [5]


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("index", "stems", 99),
        ("index", "stems", -2),
        ("index", "name_words", -1),
        ("index", "name_words", 99),
        ("index", "name_labels", 5),
        ("index", "by_word", 99),
        ("index", "name_ptr", 2**62),
        ("index", "name_ptr", 1),  # a name without words
        ("index", "word_ptr", -1),
        ("index", "shared", 0),
        ("index", "weight", np.nan),
        ("index", "weight", -1),
        (None, "name_labels", 5),
        (None, "right", 1),
        (None, "right", np.nan),
        (None, "seen", np.inf),
        (None, "coefficients", np.nan),
        (None, "name_offsets", 10**6),
    ],
)
def test_forged_arrays_are_refused(model, part, name, value):
    state = model.state()
    forged = state if part is None else state.part(part)
    arrays = {**forged.arrays, name: forged.arrays[name].copy()}
    arrays[name][2] = value
    changed = State(forged.kind, params=forged.params, arrays=arrays, parts=forged.parts)
    if part is not None:
        changed = State(state.kind, params=state.params, arrays=state.arrays, parts={part: changed})
    with pytest.raises(InputError):
        NameMatcher.from_state(changed)


@pytest.mark.parametrize("name", ["stems", "shared", "name_ptr", "word_ptr", "by_word", "name_labels"])
def test_shortened_arrays_are_refused(model, name):
    state = model.state()
    index = state.part("index")
    arrays = {**index.arrays, name: index.arrays[name][:-1]}
    forged = State(index.kind, params=index.params, arrays=arrays, parts=index.parts)
    with pytest.raises(InputError):
        NameMatcher.from_state(State(state.kind, params=state.params, arrays=state.arrays, parts={"index": forged}))


def test_as_many_stored_names_as_labels_of_names(model):
    state = model.state()
    arrays = {**state.arrays, "name_labels": state.arrays["name_labels"][:-1]}
    with pytest.raises(InputError):
        NameMatcher.from_state(State(state.kind, params=state.params, arrays=arrays, parts=state.parts))


def test_restrict_and_exclude(model):
    text = "an oak, a fir tree and the sea"
    assert set(model.rank([text], restrict=[0, 2]).labels.tolist()) == {0, 2}
    assert set(model.rank([text], exclude=[0, 2]).labels.tolist()) == {1}
    assert best(model, text, 1) == model.rank([text]).labels[:1].tolist()
    with pytest.raises(InputError, match="restrict must hold label ids from 0 to 4"):
        model.rank([text], restrict=[5])


def test_missing_and_odd_names_are_explained():
    with pytest.raises(InputError, match=r"needs the names of the labels; got none. Pass label_names"):
        NameMatcher().fit(TEXTS, Y)
    with pytest.raises(InputError, match=r"the names of all 2 labels; got 1. Use an empty text"):
        NameMatcher().fit(TEXTS, Y, label_names=["Oak"])
    with pytest.raises(InputError, match="names of labels must be texts; got None for label 1"):
        NameMatcher().fit(TEXTS, Y, label_names=["Oak", None])
    with pytest.raises(InputError, match="names of labels must be texts; got 3 for label 1"):
        NameMatcher().fit(TEXTS, Y, label_names=["Oak", ["Sea", 3]])
    with pytest.raises(InputError, match="must be a list"):
        NameMatcher().fit(TEXTS, Y, label_names="Oak")
    for empty in (["", ""], ["...", "?!"], [[], []]):
        with pytest.raises(InputError, match="at least one label must have a name with a word"):
            NameMatcher().fit(TEXTS, Y, label_names=empty)
    with pytest.raises(NotFittedError):
        NameMatcher().rank(TEXTS)
    with pytest.raises(NotFittedError):
        NameMatcher().add_labels(["Oak"])


def test_labels_with_empty_names_are_never_found():
    model = NameMatcher(threads=1).fit(TEXTS, Y, label_names=["Oak", "", "---", "  ", [], ["", "Salt"]])
    assert model.n_labels_ == 6
    assert set(model.rank([*TEXTS, "", "---", " "], 6).labels.tolist()) <= {0, 5}
    assert best(model, "salt") == [5]
    assert best(model, "") == best(model, "?!") == []
    model.add_labels(["", "Zinc"])
    assert best(model, "zinc") == [7]


def test_texts_without_words_can_be_trained_on():
    model = NameMatcher(threads=1).fit(["", "?!", " "], [[0], [], [1]], label_names=["Oak", "Sea"])
    assert best(model, "the sea") == [1]
    assert model.rank([]).n_rows == 0
    assert model.predict(["", "oak"]).shape == (2, 2)


def test_any_script_is_matched():
    names = ["Москва", "東京", "naïve art", "Åland", "ไทย", "ÇAY"]
    texts = ["в Москва", "東京は日本の首都", "NAIVE ART", "aland", "x", "çay"]
    y = [[0], [1], [2], [3], [4], [5]]
    model = NameMatcher(threads=1).fit(texts, y, label_names=names)
    assert best(model, "МОСКВА сегодня") == [0]
    assert best(model, "私は東京に住む")[0] == 1
    assert best(model, "a Naïve   art, \ud800") == [2]
    assert best(model, "Åland") == [3]
    assert best(model, "ไทย")[0] == 4


def test_words_of_names_may_be_apart_and_incomplete():
    texts = ["law of the sea and the land", "the law", "of the sea"] * 4
    model = NameMatcher(threads=1).fit(texts, [[0], [], []] * 4, label_names=["Law of the sea", "Fir"])
    assert best(model, "the sea has a law") == [0]
    strict = NameMatcher(min_coverage=1.0, threads=1).fit(texts, [[0], [], []] * 4, label_names=["Law of the sea"])
    assert best(strict, "sea law") == []
    assert best(strict, "the law of sea") == [0]
    for wrong in (0.1, 1.1, "all"):
        with pytest.raises(InputError, match="min_coverage"):
            NameMatcher(min_coverage=wrong).fit(texts, [[0]] * 12, label_names=["Law"])


def test_parameters_changed_after_fit_wait_for_the_next_fit(model):
    before = model.rank(TEXTS)
    model.set_params(min_coverage=0.3)
    assert model.rank(TEXTS) == before
    assert NameMatcher.from_state(model.state()).rank(TEXTS) == before


def test_fit_is_deterministic_whatever_the_threads():
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(80)]
    texts = [" ".join(rng.choice(words, 12)) for _ in range(400)]
    y = [[int(word[4:]) for word in set(text.split()) if int(word[4:]) < 30 and rng.random() < 0.5] for text in texts]
    names = [f"word{i} word{i + 1}" if i % 3 else f"word{i}" for i in range(30)]
    states = [NameMatcher(threads=n).fit(texts, y, label_names=names) for n in (1, 1, 2, None)]
    first = states[0]
    for other in states[1:]:
        np.testing.assert_array_equal(other.coefficients_, first.coefficients_)
        np.testing.assert_array_equal(other.right_, first.right_)
        assert other.rank(texts, 10) == first.rank(texts, 10)
    together = first.rank(texts[:50], 10)
    for row in range(50):
        assert first.rank([texts[row]], 10) == together.rows([row])


def test_labels_that_were_right_before_rank_first():
    texts = ["lead in water", "water pipes of lead", "water", "the water of lead pipes"] * 10
    model = NameMatcher(threads=1).fit(texts, [[0], [0], [], [0]] * 10, label_names=["Lead", "Water"])
    assert best(model, "water and lead")[0] == 0
    assert set(model.weights_) >= {"coverage", "right", "first"}


def test_words_are_explained_by_what_the_score_loses(model):
    assert explains_texts(model)
    assert finds_new_labels(model)
    text = "Fir trees by the sea, and one tree more"
    words = dict(model.explain_text(text, 2))
    assert set(words) == {"fir", "tree", "trees"}
    assert words["tree"] == words["trees"]
    assert words["fir"] > 0
    without = model.rank(["trees by the sea, and one tree more"], restrict=[2]).scores
    with_all = model.rank([text], restrict=[2]).scores[0]
    assert words["fir"] == pytest.approx(with_all - (without[0] if without.size else 0), abs=0.05)
    assert model.explain_text("nothing", 2) == model.explain_text("", 2) == model.explain_text(text, 0) == []
    with pytest.raises(InputError, match="label must be"):
        model.explain_text(text, 5)


def test_a_tagger_gives_the_names():
    tagger = tagwood.Tagger(model=NameMatcher(threads=1)).fit(
        TEXTS * 3, [[["oak", "sea"][label] for label in row] for row in Y] * 3
    )
    assert tagger.tag_one("the sea", k=1).names == ["sea"]
    tagger.update_labels(texts={"walnut": "Walnut"})
    assert tagger.tag_one("walnuts", k=1).names == ["walnut"]
    explained = tagger.explain("an oak", "oak")
    assert [word.word for word in explained.read_words] == ["oak"]


@pytest.mark.parametrize(("y", "low", "high"), [([[0], [1]], 0.8, 1.0), ([[1], [0]], 0.0, 0.2)])
def test_names_that_are_always_right_or_always_wrong(y, low, high):
    model = NameMatcher(threads=1).fit(["an oak", "the sea"] * 30, y * 30, label_names=["Oak", "Sea"])
    scores = model.rank(["an oak by the sea"]).scores
    assert scores.size == 2
    assert np.all((scores > low) & (scores < high))


def test_a_label_without_rows_is_not_counted_as_wrong():
    texts = ["an oak", "the sea", "a fir", "a wood"] * 30
    y = [[0], [1], [], [0]] * 30
    model = NameMatcher(threads=1).fit(texts, y, label_names=["Oak", "Sea", "Fir"])
    oak, sea, fir = (model.rank([text], 1).scores[0] for text in ("an oak", "the sea", "a fir"))
    assert fir == pytest.approx(sea, abs=0.05)
    assert fir <= min(oak, sea)
    model.add_labels(["Elm"])
    assert model.rank(["an elm"], 1).scores[0] == pytest.approx(fir, abs=0.1)


def test_further_names_of_known_labels_are_found():
    model = NameMatcher(threads=1).fit(TEXTS, Y, label_names=NAMES)
    assert best(model, "quercus") == []
    model.add_names({0: ["Quercus", NAMES[0]] if isinstance(NAMES[0], str) else ["Quercus"]})
    assert best(model, "quercus") == [0]
    with pytest.raises(InputError, match="label must be"):
        model.add_names({99: ["Elm"]})


def test_a_text_that_is_a_name_has_the_label():
    texts = ["the law of the sea", "sea and land", "sea air"] * 30
    model = NameMatcher(threads=1).fit(texts, [[0], [], []] * 30, label_names=["Law of the sea", "Sea"])
    assert model.rank(["Sea"], 1).labels.tolist() == [1]
    assert model.rank(["Sea"], 1).scores[0] >= 0.99 > model.rank(["sea and sand"], 1).scores[0]
