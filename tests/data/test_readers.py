"""Each reader on small files written by hand: what is understood, and how each mistake is named."""

import gzip
import json
import sys
import warnings

import numpy as np
import pytest
from scipy import sparse

from tagwood.data import (
    BadLines,
    Dataset,
    LabelVocab,
    SkippedLinesWarning,
    detect_format,
    read_dataset,
    read_records,
    write_dataset,
)
from tagwood.data.formats import sparse_text
from tagwood.errors import DataError, InputError, MissingExtraError

REPOSITORY = "3 4 5\n0,4 1:0.5 3:1\n 0:2\n2 \n"


@pytest.fixture
def put(tmp_path):
    """Write files (``__`` stands for the dot); return the path of the file, or of the folder of several."""

    def write(**files):
        for name, content in files.items():
            path = tmp_path / name.replace("__", ".")
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / next(iter(files)).replace("__", ".") if len(files) == 1 else tmp_path

    return write


def names_of(data):
    return [[data.vocab.name(label) for label in row] for row in data.label_lists()]


def test_repository_rows_labels_and_values(put):
    data = read_dataset(put(a__txt=REPOSITORY))
    assert data.labels.toarray().tolist() == [[1, 0, 0, 0, 1], [0] * 5, [0, 0, 1, 0, 0]]
    assert data.features.toarray().tolist() == [[0, 0.5, 0, 1], [2, 0, 0, 0], [0] * 4]


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("", 1, "the first line must be the counts 'rows features labels', not ''"),
        ("0,1 2:3\n", 1, "the first line must be the counts 'rows features labels', not '0,1 2:3'"),
        ("3 4\n", 1, "the first line must be the counts"),
        ("-3 4 5\n", 1, "the first line must be the counts"),
        ("1 99999999999 5\n0 1:1\n", 1, "at most 2,147,483,647 columns"),
        ("2 4 5\n0 1:1\n", 1, "declares 2 rows, but the file ends after 1"),
        ("1 4 5\n0 1:1\n\n\n1 1:1\n", 3, "declares 1 rows, but more follow"),
        ("2 4 5\n0 1:1\n5 1:1\n", 3, "a label in '5' is beyond the 5 labels of the header"),
        ("2 4 5\n0 1:1\n0 4:1\n", 3, "the feature in '4:1' is beyond the 4 features of the header"),
        ("1 4 5\n0 1:1 2:nan\n", 2, "the value in '2:nan' is not finite in float32"),
        ("1 4 5\n0 1:1 2:1e39 3:1\n", 2, "the value in '2:1e39' is not finite in float32"),
        ("1 4 5\n0 1:1,2\n", 2, "the value in '1:1,2' is not a number"),
        ("1 4 5\n0 -1:1\n", 2, "'-1:1' is not feature:value"),
        ("1 4 5\n0,,1 1:1\n", 2, "'0,,1' is not a list of label ids such as 3,17"),
        ("1 4 5\nash 1:1\n", 2, "'ash' is not a list of label ids"),
    ],
)
def test_mistakes_in_repository_files_are_named_with_their_line(content, line, reason, put):
    path = put(a__txt=content)
    with pytest.raises(DataError) as caught:
        read_dataset(path, "repository")
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert reason in str(caught.value)


def test_crlf_blank_rows_and_trailing_blank_lines_are_fine(put):
    data = read_dataset(put(a__txt="3 4 5\r\n0 1:1\r\n\r\n1 2:1 \r\n\r\n\r\n"), "repository")
    assert data.label_lists() == [[0], [], [1]]


def test_bad_rows_are_skipped_and_counted(put):
    path = put(a__txt="5 4 5\n0 1:1\nx\n1 1:1\n2 9:1\n3 1:1\n")
    bad = BadLines()
    data = read_dataset(path, skip_bad=bad, format="repository")
    assert data.label_lists() == [[0], [1], [3]]
    assert (bad.count, [error.line for error in bad.first]) == (2, [3, 5])
    with pytest.warns(SkippedLinesWarning, match=r"left out 2 bad lines; the first: .*line 3: 'x' is not a list"):
        read_dataset(path, "repository", skip_bad=True)


def test_blocks_of_any_size_give_the_same_rows(put, monkeypatch):
    path = put(a__txt=REPOSITORY)
    whole = read_dataset(path)
    for size in (7, 8, 11, 20):  # the first block holds the header
        monkeypatch.setattr(sparse_text, "read_blocks", lambda path, size=size: _pieces(path.read_bytes(), size))
        part = read_dataset(path, "repository")
        assert part.fingerprint() == whole.fingerprint()


def _pieces(content, size):
    return (content[at : at + size] for at in range(0, len(content), size))


def test_features_that_stand_twice_are_added_and_sorted(put):
    data = read_dataset(put(a__txt="1 4 5\n1,0,1 3:1 0:2 3:1\n"))
    assert data.features.toarray().tolist() == [[2, 0, 0, 2]]
    assert data.label_lists() == [[0, 1]]


def test_a_vocabulary_may_be_larger_than_the_file_but_not_smaller(put):
    path = put(a__txt=REPOSITORY)
    assert read_dataset(path, vocab=LabelVocab.numbered(9)).n_labels == 9
    with pytest.raises(DataError, match="the labels have 5 columns, but the vocabulary 2 labels"):
        read_dataset(path, vocab=LabelVocab.numbered(2))


def test_split_sparse_files_with_names_filters_and_two_splits(put):
    folder = put(
        trn_X_Xf__txt="2 3\n0:1 2:0.5\n1:1\n",
        trn_X_Y__txt="2 2\n0:1 1:1\n1:1\n",
        tst_X_Xf__txt="1 3\n0:1\n",
        tst_X_Y__txt="1 2\n0:1\n",
        Y__txt="ash\noak\n",
        filter_labels_train__txt="0 1\n",
    )
    train = read_dataset(folder)
    assert names_of(train) == [["ash"], ["oak"]]
    assert train.features.toarray().tolist() == [[1, 0, 0.5], [0, 1, 0]]
    assert names_of(read_dataset(folder, split="test")) == [["ash"]]
    assert names_of(read_dataset(folder / "tst_X_Y.txt")) == [["ash"]]


def test_a_row_skipped_in_one_sparse_file_is_skipped_in_the_other(put):
    folder = put(trn_X_Xf__txt="3 3\n0:1\nx\n1:1\n", trn_X_Y__txt="3 2\n0:1\n1:1\n1:1\n")
    data = read_dataset(folder, skip_bad=BadLines())
    assert data.label_lists() == [[0], [1]]
    assert data.features.toarray().tolist() == [[1, 0, 0], [0, 1, 0]]


def test_split_sparse_files_of_different_length_or_missing_are_named(put):
    folder = put(trn_X_Xf__txt="2 3\n0:1\n1:1\n", trn_X_Y__txt="1 2\n0:1\n")
    with pytest.raises(DataError, match=r"has 1 rows, but trn_X_Xf.txt has 2"):
        read_dataset(folder)
    (folder / "trn_X_Xf.txt").unlink()
    with pytest.raises(DataError, match=r"trn_X_Xf.txt: the file with the features is missing"):
        read_dataset(folder)


def test_arrays_dense_or_sparse_with_label_names(tmp_path):
    np.save(tmp_path / "X.trn.npy", np.array([[1.0, 0], [0, 2]]))
    sparse.save_npz(tmp_path / "Y.trn.npz", sparse.csr_array(np.array([[0, 1], [1, 1]])))
    (tmp_path / "labels.txt").write_text("ash\noak\n")
    data = read_dataset(tmp_path)
    assert names_of(data) == [["oak"], ["ash", "oak"]]
    assert data.features.toarray().tolist() == [[1, 0], [0, 2]]
    assert names_of(read_dataset(tmp_path / "X.trn.npy")) == names_of(data)


def test_pickled_arrays_and_other_layouts_are_refused(tmp_path):
    np.save(tmp_path / "Y.trn.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="not a readable NumPy file"):
        read_dataset(tmp_path)
    (tmp_path / "Y.trn.npy").unlink()
    sparse.save_npz(tmp_path / "Y.trn.npz", sparse.csc_array(np.eye(2)))
    with pytest.raises(DataError, match=r"is not in CSR form. Save it with"):
        read_dataset(tmp_path)


def test_xc_json_reads_title_content_relevance_and_label_titles(tmp_path):
    rows = [
        {"uid": "7", "title": "Ash", "content": "A tree.", "target_ind": [1, 0], "target_rel": [1.0, 0.0]},
        {"uid": "8", "title": "Oak", "content": "", "target_ind": []},
    ]
    with gzip.open(tmp_path / "trn.json.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    with gzip.open(tmp_path / "lbl.json.gz", "wt") as file:
        file.write('{"uid": "a", "title": "tree"}\n{"uid": "b", "title": "plant"}\n{"uid": "c", "title": "x"}\n')
    data = read_dataset(tmp_path)
    assert (data.texts, data.ids) == (["Ash\nA tree.", "Oak"], ["7", "8"])
    assert names_of(data) == [["plant"], []]
    assert data.n_labels == 3
    assert detect_format(tmp_path / "trn.json.gz") == "xc-json"


def test_fasttext_labels_stand_anywhere(put):
    data = read_dataset(put(a__txt="__label__b __label__a how  much salt\n__label__a pepper __label__c too\nplain\n"))
    assert names_of(data) == [["b", "a"], ["a", "c"], []]
    assert data.texts == ["how  much salt", "pepper too", "plain"]


def test_annif_files(put, tmp_path):
    tsv = read_dataset(put(a__tsv="A title\t<http://e.org/1> http://e.org/2\nNone\t\n"))
    assert names_of(tsv) == [["http://e.org/1", "http://e.org/2"], []]
    assert tsv.vocab.uri(1) == "http://e.org/2"
    csv = read_dataset(put(a__csv='document_id,text,subject_uris\nd1,"a, b",<urn:1> <urn:2>\n'))
    assert (names_of(csv), csv.ids, csv.texts) == ([["urn:1", "urn:2"]], ["d1"], ["a, b"])
    line = {"document_id": "d", "text": "t", "subjects": [{"uri": "urn:1", "label": "ash"}, {"label": "oak"}]}
    jsonl = read_dataset(put(a__jsonl=json.dumps(line)))
    assert (names_of(jsonl), jsonl.vocab.uri(0), jsonl.vocab.uri(1)) == ([["ash", "oak"]], "urn:1", None)


def test_txt_key_folder(put):
    folder = put(b__txt="second", b__key="oak\nash\n", a__txt="first", a__tsv="<urn:1>\tash\n<urn:2>\toak\n")
    data = read_dataset(folder)
    assert (data.texts, data.ids) == (["first", "second"], ["a", "b"])
    assert [sorted(row) for row in names_of(data)] == [["ash", "oak"], ["ash", "oak"]]
    assert data.n_labels == 2
    (folder / "c.txt").write_text("no labels")
    with pytest.raises(DataError, match=r"c.txt: has no c.key or c.tsv beside it"):
        read_dataset(folder)
    assert [record.text for record in read_records(folder)] == ["first", "second", "no labels"]


@pytest.mark.parametrize(
    ("header", "cell", "expected"),
    [
        ("body,tags", "ash;oak", ["ash", "oak"]),
        ("Abstract,Subjects", "ash | oak|", ["ash", "oak"]),
        ("text,keywords", '"[""a;b"", ""c""]"', ["a;b", "c"]),
        ("content,label", "one label", ["one label"]),
    ],
)
def test_tables_with_columns_of_many_names(header, cell, expected, put):
    data = read_dataset(put(a__csv=f"{header}\nsome text,{cell}\n"))
    assert (data.texts, names_of(data)) == (["some text"], [expected])


def test_a_separator_can_be_named(put):
    assert names_of(read_dataset(put(a__csv="text,tags\nx,a b/c;d\n"), separator="/")) == [["a b", "c;d"]]


@pytest.mark.parametrize(
    ("name", "content", "line", "reason"),
    [
        ("a__csv", "text,labels\na,b,c\n", 2, "the header has 2 columns, this row 3"),
        ("a__csv", 'text,labels\n"two\nlines",x\nbad\n', 4, "the header has 2 columns, this row 1"),
        ("a__csv", "text,other\na,b\n", 1, "no column for labels among 'text', 'other'"),
        ("a__csv", "x,labels\na,b\n", 1, "The first line must name the columns"),
        ("a__jsonl", '{"text": "a", "labels": []}\n{"text": \n', 2, "is not JSON"),
        ("a__jsonl", '[1]\n{"text": 1}\n', 1, "is not a JSON object"),
        ("a__jsonl", '{"text": "a"}\n', 1, "has no label field among 'text'"),
        ("a__jsonl", '{"labels": []}\n', 1, "has no text field among 'labels'"),
        ("a__jsonl", '{"text": 3, "labels": []}\n', 1, "'text' is not text"),
        ("a__jsonl", '{"text": "a", "labels": [1.5]}\n', 1, "1.5 is not a label"),
        ("a__jsonl", '{"text": "a", "labels": [true]}\n', 1, "true is not a label"),
        ("a__jsonl", '{"text": "a", "labels": [-1]}\n', 1, "label id -1 is not from 0"),
        ("a__jsonl", '{"text": "a", "labels": ["x", 1]}\n', 1, "label names and label ids are mixed"),
        ("a__jsonl", '{"text": "a\\ud800", "labels": []}\n', 1, "half of a surrogate pair"),
        (
            "a__jsonl",
            b'{"text": "\xc3\xa4\xc3\xb6", "labels": []}\n{"text": "\xff", "labels": []}\n',
            2,
            "byte 11 is not utf-8",
        ),
    ],
)
def test_mistakes_in_text_formats_are_named_with_their_line(name, content, line, reason, put):
    path = put(**{name: content})
    with pytest.raises(DataError) as caught:
        read_dataset(path, path.suffix[1:])
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert reason in str(caught.value)


def test_pecos_and_attentionxml_mistakes(put):
    with pytest.raises(DataError, match="line 2: has no tab"):
        read_dataset(put(a__txt="1\ta\nb\n"), "pecos")
    with pytest.raises(DataError, match="line 1: 'x' is not a label id"):
        read_dataset(put(a__txt="x\ta\n"), "pecos")
    folder = put(train_texts__txt="a\nb\n", train_labels__txt="x y\n")
    with pytest.raises(DataError, match=r"train_labels.txt, line 2: ends before train_texts.txt does"):
        read_dataset(folder, "attentionxml")


def test_another_encoding_can_be_named(put):
    path = put(a__txt="__label__a caf\u00e9".encode("latin-1"))
    assert read_dataset(path, "fasttext", encoding="latin-1").texts == ["caf\u00e9"]
    with pytest.raises(InputError, match="encoding must be one that Python knows; got 'klingon'"):
        read_dataset(path, "fasttext", encoding="klingon")


def test_json_ids_are_ids_and_strings_are_names(put):
    by_id = read_dataset(put(a__jsonl='{"text": "a", "labels": [3]}\n'))
    assert (by_id.label_lists(), by_id.n_labels, by_id.vocab.name(3)) == ([[3]], 4, "3")
    by_name = read_dataset(put(b__jsonl='{"text": "a", "labels": ["3"]}\n'))
    assert (by_name.label_lists(), by_name.vocab.name(0)) == ([[0]], "3")


def test_unknown_labels_are_an_error_added_or_skipped(put):
    path = put(a__jsonl='{"text": "a", "labels": ["oak", "yew", "ash"]}\n')
    vocab = LabelVocab.from_names(["ash", "oak"])
    with pytest.raises(DataError, match=r"line 1: label 'yew' is not in the vocabulary. Allow unknown labels"):
        read_dataset(path, vocab=vocab)
    added = read_dataset(path, vocab=vocab, on_unknown="add")
    assert (added.label_lists(), added.vocab.name(2), len(added.vocab)) == ([[0, 1, 2]], "yew", 3)
    skipped = read_dataset(path, vocab=vocab, on_unknown="skip")
    assert (skipped.label_lists(), skipped.vocab) == ([[0, 1]], vocab)
    with pytest.raises(InputError, match="on_unknown must be one of"):
        read_dataset(path, vocab=vocab, on_unknown="ignore")


def test_uris_of_a_vocabulary_give_names(put):
    vocab = LabelVocab.from_names(["ash", "oak"], uris=["p1", "p2"])
    data = read_dataset(put(a__jsonl='{"text": "a", "labels": ["p2", "ash"]}\n'), vocab=vocab)
    assert names_of(data) == [["ash", "oak"]]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("2 3 4\n0 1:1\n1 2:2\n", "repository"),
        ("2 3\n0:1\n1:2\n", "sparse-files"),
        ('{"text": "a", "labels": []}\n', "jsonl"),
        ('{"uid": 1, "title": "a", "content": "b", "target_ind": [1]}\n', "xc-json"),
        ("1,2\tsome text\n\tother text\n", "pecos"),
        ("__label__a text\nno label\n__label__b c\n", "fasttext"),
        ("title,tags\na,b\n", "csv"),
        ("\ufefftext\tlabels\na\tb\n", "tsv"),
        ("A title\t<http://e.org/1>\nB\thttp://e.org/2\n", "annif-tsv"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_content_decides_whatever_the_name(content, expected, packed, tmp_path):
    raw = content.encode()
    (tmp_path / "file.dat").write_bytes(gzip.compress(raw) if packed else raw)
    assert detect_format(tmp_path / "file.dat") == expected


@pytest.mark.parametrize("content", ["", "\n\n", b"\xef\xbb\xbf"])
def test_empty_files_are_named(content, put):
    with pytest.raises(DataError, match=r"a\.txt: is empty"):
        read_dataset(put(a__txt=content))


@pytest.mark.parametrize("content", ["just some words\nand more\n", "a\tb\nc\td\n", "x,y\n1,2\n"])
def test_undecidable_content_says_what_was_seen_and_what_to_do(content, put):
    path = put(a__txt=content)
    with pytest.raises(DataError, match="fits no known format") as caught:
        read_dataset(path)
    assert repr(content.split("\n")[0])[1:-1] in str(caught.value)
    assert "--format" in str(caught.value)


def test_folders_without_data_and_missing_files_are_named(tmp_path):
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(DataError, match=r"no known dataset \(notes.md\)"):
        read_dataset(tmp_path)
    with pytest.raises(DataError, match="there is no such file or folder"):
        read_dataset(tmp_path / "nowhere.csv")


def test_a_model_folder_is_not_taken_for_data(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match="this is a model folder, not a dataset"):
        read_dataset(tmp_path)


def test_streaming_skips_bad_lines_and_needs_no_labels(put):
    path = put(a__jsonl='{"text": "a"}\nbroken\n{"text": "b", "labels": ["x"], "group": "g"}\n')
    bad = BadLines()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        records = list(read_records(path, skip_bad=bad))
    assert [(record.text, list(record.labels), record.group, record.line) for record in records] == [
        ("a", [], "", 1),
        ("b", ["x"], "g", 3),
    ]
    assert bad.count == 1


def test_parquet_without_pyarrow_names_the_extra(put, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tagwood\[parquet\]'"):
        read_dataset(put(a__parquet=b"PAR1"))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.parquet"])
def test_groups_are_read_from_the_column_that_is_named(tmp_path, name):
    vocab = LabelVocab.from_names(["oak"])
    data = Dataset([[0], [0]], vocab, texts=["a", "b"], groups=["x", "y"])
    write_dataset(data, tmp_path / name)
    if name.endswith("parquet"):
        parquet = pytest.importorskip("pyarrow.parquet")
        table = parquet.read_table(tmp_path / name)
        parquet.write_table(
            table.rename_columns([c.replace("group", "Box") for c in table.column_names]), tmp_path / name
        )
    else:
        (tmp_path / name).write_text((tmp_path / name).read_text().replace("group", "Box"))
    assert read_dataset(tmp_path / name).groups is None
    assert list(read_dataset(tmp_path / name, groups="box").groups) == ["x", "y"]
    with pytest.raises(DataError, match=r"no (row has a group in a field or )?column 'crate'"):
        read_dataset(tmp_path / name, groups="crate")
