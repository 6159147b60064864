"""`update_labels(vocab=...)`: a new label table for a fitted Tagger; ids stay, storage keeps it."""

import pytest
from library import make_library

from tagwood import LabelVocab, LinearTree, Tagger
from tagwood.errors import InputError


@pytest.fixture
def small():
    return Tagger(model=LinearTree(threads=1), keep_texts=0).fit(*make_library(100))


def test_a_new_table_brings_names_uris_and_languages(small, tmp_path):
    names = list(small.vocab_.names)
    uris = [f"urn:{name}" for name in names]
    table = LabelVocab.from_names(
        [name.upper() for name in names], uris=uris, languages={"de": [f"{name}-de" for name in names]}
    )
    small.update_labels(vocab=table, mask=["urn:water"])
    small.save(tmp_path / "m")
    again = Tagger.load(tmp_path / "m", verify=True)
    best = again.tag_one("oak bark forest", k=1, language="de")[0]
    assert (best.name, best.uri) == ("trees-de", "urn:trees")
    assert again.tag_one("oak bark forest", k=1).names == ["TREES"]
    assert "urn:water" not in [tag.uri for tag in again.tag_one("sea salt wave", k=9)]


def test_labels_behind_the_present_ones_are_found_by_their_texts(small, tmp_path):
    grown = small.vocab_.add(["fishing"], uris=["urn:f"])
    small.update_labels(vocab=grown, texts={"urn:f": "trout tide river"})
    assert "urn:f" in [tag.uri for tag in small.tag_one("river tide trout", k=9)]
    assert "urn:f" not in [tag.uri for tag in small.tag_one("oak bark", k=9)]
    small.save(tmp_path / "m")
    assert Tagger.load(tmp_path / "m").tag_one("river tide", k=1, restrict=["urn:f"]).names == ["fishing"]


def test_a_shorter_table_is_refused(small):
    with pytest.raises(InputError, match="vocab must keep the 4 labels of this Tagger; got 1"):
        small.update_labels(vocab=LabelVocab.from_names(["trees"]))


def test_new_labels_of_an_ensemble_are_found_and_stored(library, tmp_path):
    texts, labels = library
    times = -(-600 // len(texts))
    tagger = Tagger(model=LinearTree(threads=1), quality="balanced").fit(texts * times, labels * times)
    assert tagger.probabilities_ is not None
    tagger.update_labels(texts={"oaks": "oak elm"})
    assert "oaks" in tagger.tag_one("oak elm", k=5).names
    again = Tagger.load(tagger.save(tmp_path / "model"))
    assert again.tag_one("oak elm", k=5) == tagger.tag_one("oak elm", k=5)
