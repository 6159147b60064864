"""Series of pandas, Polars and Arrow are texts, labels, ids and groups; one label per text is enough."""

from uuid import UUID

import numpy as np
import pytest

from tagwood import Dataset, LabelVocab, LinearTree, Tagger, TfidfEncoder, evaluate, load, save
from tagwood.errors import InputError
from tagwood.tagger.fitting import label_sets

TEXTS = ["oak and ash leaves", "ash wood", "oak wood", "sea water", "salt water", "sea salt"]
NAMES = [["tree"]] * 3 + [["water"]] * 3


class Series:
    """As pandas and Polars present a column: an iterable with ``to_list`` whose items need not be Python values."""

    def __init__(self, values):
        self._values = values

    def to_list(self):
        return list(self._values)

    def __len__(self):
        return len(self._values)

    def __iter__(self):
        raise AssertionError("items are taken by to_list")


def arrow(values):
    return pytest.importorskip("pyarrow").chunked_array([values])


def pandas(values):
    return pytest.importorskip("pandas").Series(values)


def polars(values):
    return pytest.importorskip("polars").Series(values)


@pytest.mark.parametrize("column", [list, Series, arrow, pandas, polars])
def test_columns_are_texts_labels_and_queries(column):
    tagger = Tagger(model=LinearTree(threads=1)).fit(column(TEXTS), column(NAMES))
    assert tagger.tag(column(["the wood of an oak"]), k=1)[0].names == ["tree"]
    assert tagger.score(column(TEXTS), column(NAMES)) == 1.0
    one_each = Tagger(model=LinearTree(threads=1)).fit(column(TEXTS), column([row[0] for row in NAMES]))
    assert one_each.fingerprint_ == tagger.fingerprint_
    data = Dataset(column([[0], [1]]), LabelVocab.numbered(2), texts=column(["a", "b"]), ids=column(["x", "y"]))
    assert (data.texts, data.ids, data.label_lists()) == (["a", "b"], ["x", "y"], [[0], [1]])
    X = TfidfEncoder(threads=1).fit_transform(column(TEXTS))
    ids = column([0, 0, 0, 1, 1, 1])
    model = LinearTree(threads=1).fit(X, ids)
    assert evaluate(ids, model.rank(X, 1), metrics=["P@1"])["P@1"] == 1.0


@pytest.mark.parametrize("labels", [np.array([3, 5, 3]), [3, 5, 3], np.array(["b", "c", "b"])])
def test_one_label_per_text(labels):
    Y, _ = label_sets(labels, None)
    assert Y.sum() == 3
    assert Y[[0]].indices.tolist() == Y[[2]].indices.tolist() != Y[[1]].indices.tolist()


def test_missing_labels_are_none_and_missing_texts_are_named():
    Y, _ = label_sets(["oak", None, float("nan"), "", ["ash"]], None)
    assert np.diff(Y.indptr).tolist() == [1, 0, 0, 0, 1]
    with pytest.raises(InputError, match=r"texts must be strings; got None in row 1\. Replace missing ones by ''\."):
        Tagger().fit(["a", None], ["x", "y"])
    with pytest.raises(InputError, match=r"texts must be strings; got 7 in row 0\. Pass the column with the texts"):
        Tagger().fit([7, 8], ["x", "y"])


@pytest.mark.parametrize(("column", "call"), [(pandas, "fillna"), (polars, "fill_null"), (arrow, "fill_null")])
def test_missing_texts_are_filled_by_the_call_of_the_package(column, call):
    with pytest.raises(InputError, match=rf"in row 1\. Replace missing ones by '': texts\.{call}\(''\)"):
        Tagger().fit(column(["a", None]), ["x", "y"])


def test_ids_that_missing_values_made_floats_are_named():
    with pytest.raises(InputError, match=r"got 7\.0 in row 0, a float, because the label of row 1 is missing.*'Int64'"):
        Tagger().fit(["a", "b", "c"], pandas([7, None, 8]))
    with pytest.raises(InputError, match=r"got 7\.0 in row 0, a float\. Pass a list of int"):
        Tagger().fit(["a", "b"], np.array([7.0, 8.0]))


class Frame:
    columns = ("title", "labels")

    def __iter__(self):
        return iter(self.columns)


@pytest.mark.parametrize("table", [Frame(), {"title": ["a"], "labels": ["b"]}])
def test_a_table_in_place_of_a_column_gets_the_right_hint(table):
    hint = r"must be one column; got a \w+ with the columns 'title', 'labels'\. Pass one of them: table\['title'\]"
    for call in (lambda: Tagger().fit(table, ["x"]), lambda: Tagger().fit(["a"], table)):
        with pytest.raises(InputError, match=hint):
            call()
    with pytest.raises(InputError, match="texts must be one column"):
        TfidfEncoder().fit(table)


@pytest.mark.parametrize(
    ("texts", "labels", "words"),
    [
        ("a text", [["x"]], "texts must be one text per row; got a single text. Wrap it: [text]"),
        (["a"], "x", "labels must be one entry per row; got a single text"),
        (["a", "b"], [1.5, 2.5], "one label, for each text; got 1.5, a float. Labels are names"),
        (
            ["a", "b"],
            [UUID(int=1), UUID(int=2)],
            "a UUID. Labels are names (strings) or ids (whole numbers, tuples); pass others as texts",
        ),
        (["a", "b"], [[UUID(int=1)], [UUID(int=2)]], "Pass others, such as UUIDs, as texts: str(label)"),
        (
            ["a", "b"],
            [("shop", 1), ("shop", 2)],
            "A tuple that is the one label of a text is in a list: [('shop 1', 7)]",
        ),
        (["a", "b"], [["x"], [("shop", 2)]], "a label cannot be the tuple ('shop', 2) where others are names"),
        (np.array("a"), ["x"], "texts must be one entry per row; got 'a'. Wrap it in a list"),
        (["a"], [["x"], ["y"]], "labels must have one entry for each of the 1 texts; got 2"),
        (5, ["x"], "texts must be one entry per row; got int"),
    ],
)
def test_each_mistake_has_its_hint(texts, labels, words):
    with pytest.raises(InputError) as caught:
        Tagger().fit(texts, labels)
    assert words in str(caught.value)


def test_load_checks_the_kind_it_is_asked_for(tmp_path):
    tagger = Tagger(model=LinearTree(threads=1)).fit(TEXTS, NAMES)
    folder = save(tagger, tmp_path / "model")
    for wrong in ("Tagger", tagger):
        with pytest.raises(InputError, match=r"kind must be a class; .* load\(folder, Tagger\)"):
            load(folder, wrong)
    for path in (None, 5):
        with pytest.raises(InputError, match="folder must be the path of a model folder"):
            load(path)
        with pytest.raises(InputError, match="folder must be the path of a model folder"):
            save(tagger, path)
    assert load(folder, Tagger).words_per_text_ == 2
    with pytest.raises(InputError, match="must hold a LinearTree; got Tagger"):
        load(folder, LinearTree)
