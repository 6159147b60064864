"""Tests of label filters and of labels with ids of any kind in a Tagger."""

import pickle
from uuid import UUID

import numpy as np
import pytest

from tagwood import LabelVocab, Tagger
from tagwood.errors import InputError
from tagwood.tagger import search

TEXTS = ["oak and ash leaves", "ash wood", "oak wood", "sea water", "salt water", "sea salt", "blue sky", "grey sky"]
TREE, WATER, SKY = range(3)
KINDS = {
    "names": ["tree", "water", "sky"],
    "asins": ["B00TREE", "B00WATER", "B00SKY"],
    "sparse numbers": [10**9, 7, 2**62],
    "negative numbers": [-1, -20, -300],
    "tuples": [("shop 1", 7), ("shop 1", 8), ("shop 2", 7)],
}


def labels(kind):
    ids = KINDS[kind]
    return [[ids[TREE]]] * 3 + [[ids[WATER]]] * 3 + [[ids[SKY]]] * 2


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def tagger(kind):
    return Tagger().fit(TEXTS, labels(kind))


def given(tagger, tag):
    return tag.name if tagger.vocab_.id_kind == "row" else tag.label


def test_labels_are_returned_as_given_and_survive_storage(tagger, kind, tmp_path):
    tagger.save(tmp_path / "model")
    for one in (tagger, Tagger.load(tmp_path / "model", verify=True)):
        best = one.tag_one("oak wood", 1)[0]
        assert given(one, best) == KINDS[kind][TREE]
        assert one.explain("oak wood", KINDS[kind][TREE]).place == 1
        assert one.score(TEXTS, labels(kind)) == 1.0


def test_labels_are_restricted_and_excluded_by_the_ids_that_were_given(tagger, kind):
    ids = KINDS[kind]
    assert given(tagger, tagger.tag_one("oak wood", 1, restrict=[ids[SKY]])[0]) == ids[SKY]
    assert ids[TREE] not in [given(tagger, tag) for tag in tagger.tag_one("oak wood", 3, exclude=[ids[TREE]])]
    sky = tagger.label_filter([ids[SKY]])
    assert given(tagger, tagger.tag_one("oak wood", 1, restrict=sky)[0]) == ids[SKY]
    assert len(tagger.tag_one("oak wood", 3, restrict=~sky)) == 2
    assert tagger.tag_one("oak wood", 3, restrict=sky & ~sky) == ()


def test_unknown_labels_are_refused_or_counted(tagger, kind):
    other = {"names": "sun", "asins": "B00X", "tuples": ("shop 3", 1)}.get(kind, 12345)
    with pytest.raises(InputError, match="must be in the vocabulary"):
        tagger.label_filter([other])
    for unknown in (other, 2**70):
        with pytest.raises(InputError, match=r"labels must be in the vocabulary; got .* unknown='ignore'"):
            tagger.tag_one("oak", restrict=[unknown])
    made = tagger.label_filter([other, KINDS[kind][TREE], other], unknown="ignore")
    assert (made.n_unknown, len(made)) == (2, 1)
    with pytest.raises(InputError, match="unknown must be"):
        tagger.label_filter([other], unknown="skip")


def test_spelling_is_suggested_when_a_filter_is_prepared_but_not_in_tag():
    tagger = Tagger().fit(TEXTS, labels("names"))
    with pytest.raises(InputError, match="Did you mean 'water'"):
        tagger.label_filter(["watr"])
    with pytest.raises(InputError) as error:
        tagger.tag_one("oak", restrict=["watr"])
    assert "Did you mean" not in str(error.value)


def numpy(values):
    return np.array(values)


def pandas(values):
    return pytest.importorskip("pandas").Series(values)


def arrow(values):
    return pytest.importorskip("pyarrow").array(values)


def polars(values):
    return pytest.importorskip("polars").Series(values)


@pytest.mark.parametrize("column", [numpy, pandas, arrow, polars])
def test_arrays_and_columns_are_taken_as_they_are(column):
    tagger, named = (Tagger().fit(TEXTS, labels(kind)) for kind in ("sparse numbers", "names"))
    ids, mask = [7, 10**9], [True, False, True]
    assert sorted(tagger.label_filter(column(ids)).ids.tolist()) == sorted(tagger.vocab_.find_many(ids).tolist())
    assert tagger.label_filter(column(mask)).mask.tolist() == mask
    assert named.label_filter(column(["sky"])).ids.tolist() == [SKY]
    named.update_labels(mask=column(["tree", "water"]))
    assert named.tag_one("sky", 5).names == ["sky"]
    named.update_labels(unmask=column([True, False, False]))
    assert set(named.tag_one("sky", 5).names) == {"sky", "tree"}


def test_other_collections_are_taken_and_wrong_ones_refused():
    tagger = Tagger().fit(TEXTS, labels("sparse numbers"))
    for made in ({7, 10**9}, iter([7, 10**9])):
        assert sorted(tagger.label_filter(made).ids.tolist()) == sorted(tagger.vocab_.find_many([7, 10**9]).tolist())
    with pytest.raises(InputError, match="one entry for each of the 3 labels"):
        tagger.label_filter(np.array([True]))
    for one in ("sky", b"sky"):
        with pytest.raises(InputError, match="labels must be a collection"):
            tagger.label_filter(one)


@pytest.mark.parametrize(
    ("column", "drop", "fill"),
    [
        (pandas, r"labels\.dropna\(\)", r"mask\.fillna\(False\)"),
        (arrow, r"labels\.drop_null\(\)", r"mask\.fill_null\(False\)"),
        (polars, r"labels\.drop_nulls\(\)", r"mask\.fill_null\(False\)"),
    ],
)
def test_the_missing_row_of_a_column_is_named_with_the_call_of_its_package(column, drop, fill):
    tagger = Tagger().fit(TEXTS, labels("sparse numbers"))
    for use in (tagger.label_filter, lambda made: tagger.tag("oak", restrict=made)):
        with pytest.raises(InputError, match=f"missing value in row 1. Leave missing ones out: {drop}"):
            use(column([10**9, None, 7]))
        with pytest.raises(InputError, match=f"missing value in row 1. Replace missing ones by False: {fill}"):
            use(column([True, None, False]))
    with pytest.raises(InputError, match="missing value in row 1"):
        Tagger().fit(TEXTS, labels("names")).label_filter(column(["sky", None]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([True, False, True], r"a mask of labels must be an array; got a list with bool\. Pass np\.array\(mask\)"),
        ([UUID(int=1)], r"in row 0, of type UUID\. Pass their texts: \[str\(label\)"),
        ([7, b"sky"], r"got b'sky' in row 1, of type bytes\. Decode them"),
        (np.array([7.0]), r"got 7\.0 in row 0, of type float\. Convert them: labels\.astype\('int64'\)"),
        ([[7]], r"Pass one collection of labels"),
        (5, r"labels must be a collection; got 5\. Wrap it: \[5\]"),
    ],
)
def test_wrong_labels_get_the_right_hint(given, words):
    tagger = Tagger().fit(TEXTS, labels("sparse numbers"))
    for use in (tagger.label_filter, lambda made: tagger.update_labels(mask=made)):
        with pytest.raises(InputError, match=words):
            use(given)


def test_unsigned_numbers_beyond_the_largest_id_are_unknown():
    tagger = Tagger().fit(TEXTS, [[-(2**63) + 5], [7]] * 4)
    assert tagger.label_filter(np.array([2**63 + 5, 7], dtype=np.uint64), unknown="ignore").n_unknown == 1
    with pytest.raises(
        InputError, match=r"ids must be from -2\*\*63 to 2\*\*63 - 1; got 9223372036854775813.*str\(id\)"
    ):
        Tagger().fit(TEXTS, np.array([2**63 + 5, 7] * 4, dtype=np.uint64))


def test_a_filter_can_be_pickled():
    tagger = Tagger().fit(TEXTS, labels("names"))
    made = tagger.label_filter(["sky", "sun"], unknown="ignore")
    tagger.tag("sky", restrict=~made)  # fills what searches compute with it
    for one in (made, ~made):
        found = pickle.loads(pickle.dumps(one))
        assert (found.mask.tolist(), found.later, found.n_unknown) == (one.mask.tolist(), one.later, one.n_unknown)
        assert tagger.tag("sky", restrict=found) == tagger.tag("sky", restrict=one)


def test_any_number_of_labels_may_be_asked_for():
    tagger = Tagger().fit(TEXTS, labels("names")).update_labels(texts={"cloud": "water of the sky"})
    assert tagger.rank(["sky"], 2**70) == tagger.rank(["sky"], 4)


def test_arrays_with_the_same_content_are_looked_up_once(monkeypatch):
    made = []

    def counting(vocab, given, **options):
        made.append(given)
        return make_filter(vocab, given, **options)

    make_filter = search.make_filter
    monkeypatch.setattr(search, "make_filter", counting)
    tagger = Tagger().fit(TEXTS, labels("sparse numbers"))
    ids = np.array([7])
    assert [tagger.tag_one("sky", 5, restrict=ids.copy())[0].label for _ in range(3)] == [7] * 3
    assert tagger.tag_one("sky", 5, restrict=[7])[0].label == 7
    assert len(made) == 1
    ids[0] = 10**9  # the same array with other content
    assert tagger.tag_one("sky", 5, restrict=ids)[0].label == 10**9
    mask = tagger.label_filter([7]).mask
    assert tagger.tag_one("sky", 5, restrict=mask)[0].label == 7
    with pytest.raises(InputError, match="labels must be in the vocabulary"):
        tagger.tag_one("sky", restrict=np.array([8]))


def test_recent_filters_are_few():
    recent, vocab = search.RecentFilters(2), LabelVocab(5)
    first, second = (recent.filter_of(vocab, np.array([label])) for label in (1, 2))
    assert recent.filter_of(vocab, np.array([1])) is first  # the newest one again
    assert recent.filter_of(vocab, np.array([3])).ids.tolist() == [3]  # the second must go
    assert recent.filter_of(vocab, np.array([1])) is first
    assert recent.filter_of(vocab, np.array([2])) is not second
    # Masks and numbers are never mixed up.
    masks = recent.filter_of(vocab, np.array([False, True, True, False, False]))
    assert recent.filter_of(vocab, np.array([0, 1, 1, 0, 0])).ids.tolist() == [0, 1] != masks.ids.tolist()


def test_a_filter_stays_valid_when_labels_are_added_or_masked():
    tagger = Tagger().fit(TEXTS, labels("names"))
    tree = tagger.label_filter(["tree"])
    tagger.update_labels(texts={"cloud": "water of the sky"}, mask=["water"])
    assert tagger.tag_one("sky", 5, restrict=tree).names == ["tree"]
    assert "cloud" in tagger.tag_one("sky", 5, restrict=~tree).names
    assert "water" not in tagger.tag_one("sea water", 5, restrict=~tree).names


def test_a_filter_for_a_larger_table_is_refused():
    small, large = (
        Tagger().fit(TEXTS, labels("names")),
        Tagger().fit([*TEXTS, "a cloud"], [*labels("names"), ["cloud"]]),
    )
    with pytest.raises(InputError, match=r"for this label table, which has \d labels; got one for \d labels"):
        small.tag(TEXTS, restrict=large.label_filter(["cloud"]))


def test_filters_are_combined_with_filters_and_hold_ids():
    tree = Tagger().fit(TEXTS, labels("names")).label_filter(["tree"])
    for combine in (tree.__and__, tree.__or__):
        assert combine(["tree"]) is NotImplemented
    with pytest.raises(InputError, match="holds ids of labels; got 'tree'"):
        "tree" in tree  # noqa: B015


def test_ids_in_a_column_are_not_taken_for_a_matrix():
    with pytest.raises(InputError, match=r"must hold 0 and 1.*got one column with 7.*labels.ravel\(\)"):
        Tagger().fit(TEXTS, np.arange(8 - len(TEXTS), 8)[:, None])


def test_descriptions_are_given_by_label():
    tagger = Tagger().fit(TEXTS, labels("names"))
    for given in (["cloud"], np.array(["cloud", "rain"]), pandas({"cloud": "rain"})):
        with pytest.raises(InputError, match=r"texts must map labels to their descriptions; got an? \w+\. Pass a dict"):
            tagger.update_labels(texts=given)
        with pytest.raises(InputError, match=r"rename must map labels to their new names; got an? \w+\. Pass a dict"):
            tagger.update_labels(rename=given)


def test_a_filter_or_a_set_of_ids_masks_labels():
    tagger = Tagger().fit(TEXTS, labels("names"))
    tagger.update_labels(mask=~tagger.label_filter(["sky"]))
    assert tagger.tag_one("sky", 5).names == ["sky"]
    with pytest.raises(InputError, match="Did you mean 'water'"):
        tagger.update_labels(unmask=["watr"])


def test_five_hundred_ids_up_to_a_billion_need_little_memory():
    import tracemalloc

    rng = np.random.default_rng(0)
    ids = np.unique(rng.integers(0, 10**9, 500))
    texts = [f"word{row % ids.size} and more" for row in range(2 * ids.size)]
    tracemalloc.start()
    tagger = Tagger(quality="fast").fit(texts, [[int(ids[row % ids.size])] for row in range(2 * ids.size)])
    found = tagger.tag(texts[:20], 1, restrict=ids[:20])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [tags[0].label for tags in found] == ids[:20].tolist()
    assert peak < 100e6


def test_a_filter_is_refused_by_a_tagger_with_the_labels_in_another_order(tagger, kind):
    tree = tagger.label_filter([KINDS[kind][TREE]])
    again = Tagger().fit(TEXTS, labels(kind))
    assert given(again, again.tag_one("sea", 1, restrict=tree)[0]) == KINDS[kind][TREE]
    more = [[-(2**60)]] if "numbers" in kind else []  # numbers are sorted
    other = Tagger().fit([*TEXTS[::-1], "white cloud"][: 8 + len(more)], labels(kind)[::-1] + more)
    for made in (tree, ~tree, tree & tree, tagger.label_filter(np.array([True, False, False]))):
        with pytest.raises(InputError, match=r"one for other labels, or in another order\. Prepare it again with"):
            other.tag_one("sea", 1, restrict=made)
    with pytest.raises(InputError, match="filters that are combined must be made for the same labels"):
        tree & other.label_filter([KINDS[kind][TREE]])


def test_filters_made_before_and_after_labels_were_added_can_be_combined():
    tagger = Tagger().fit(TEXTS, labels("names"))
    before = ~tagger.label_filter(["sky"])
    tagger.update_labels(texts={"cloud": "white cloud"}, mask=["water"])
    after = tagger.label_filter(["cloud", "tree", "sky"])
    assert (before & after).ids.tolist() == (after & before).ids.tolist() == [TREE, 3]
    assert {tag.name for tag in tagger.tag_one("oak and cloud", 5, restrict=before & after)} <= {"tree", "cloud"}
