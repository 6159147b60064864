"""Corrections: taken in at once, replaced, stored, and trained into the tree."""

import json
from copy import copy

import numpy as np
import pytest
from ensemble_problem import mixed_rows
from library import make_library
from scipy import sparse

from tagwood import LinearTree, Neighbours, Tagger
from tagwood._sparse import csr_parts
from tagwood.cli.app import run
from tagwood.data import Dataset
from tagwood.data.feedback import FeedbackRecord, feedback_rows, read_feedback, with_feedback
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError
from tagwood.models.linear_tree.training import Solver, TreeTraining, entry_weights, with_rejected_rows
from tagwood.tagger.learning import LearnedRows
from tagwood.trees.label_tree import LabelTree


@pytest.fixture
def tagger():
    texts, labels = make_library(80)
    return Tagger(model=Neighbours(n_neighbours=5, threads=1)).fit(texts, labels)


def test_a_correction_takes_effect_at_once(tagger):
    wrong = tagger.tag_one("oak oak oak", 1)[0].name
    right = next(name for name in tagger.vocab_.names if name != wrong)
    used = copy(tagger)
    tagger.learn(["oak oak oak"] * 1, [[right]], rejected=[[wrong]])
    scores = {tag.name: tag.score for tag in tagger.tag_one("oak oak oak", 4)}
    assert scores[right] > scores.get(wrong, 0.0) - 1
    assert right in scores
    assert tagger.n_rows_ == used.n_rows_ + 1
    assert used.tag_one("oak oak oak", 1)[0].name == wrong  # a copy made before is not changed


def test_a_later_correction_of_the_same_text_replaces_the_earlier_one(tagger):
    before = tagger.model_.n_rows_
    tagger.learn(["oak"], [["water"]], keys=["k"], ids=["1"])
    tagger.learn(["oak"], [["water"]], keys=["k"], ids=["1"])  # known
    assert tagger.model_.n_rows_ == before + 1
    tagger.learn(["oak"], [["stars"]], keys=["k"], ids=["2"])
    assert tagger.model_.dead_.sum() == 1
    assert tagger.learned_.has("k", "2")
    assert not tagger.learned_.has("k", "1")


def test_what_was_learned_is_stored(tagger, tmp_path):
    tagger.learn(["oak", "sea"], [["water"], ["stars"]], keys=["a", "b"], ids=["1", "2"])
    tagger.learn(["oak"], [["stars"]], keys=["a"], ids=["3"])
    tagger.save(tmp_path / "model")
    loaded = Tagger.load(tmp_path / "model")
    assert loaded.learned_.has("a", "3")
    memory = loaded.model_
    for key in ("a", "b"):
        row = loaded.learned_.known[key].row
        labels = memory.row_labels_.labels[memory.row_labels_.ptr[row] : memory.row_labels_.ptr[row + 1]]
        assert [loaded.vocab_.name(int(label)) for label in labels] == ["stars"]


@pytest.fixture(scope="module")
def balanced():
    texts, labels, names = mixed_rows(700, 40)
    return Tagger(quality="balanced").fit(texts, labels, vocab=LabelVocab.from_names(names))


@pytest.mark.parametrize(("kind", "words"), [("tagger", "oak sea oak"), ("balanced", "word1 word2 noise3")])
def test_a_text_that_was_decided_about_is_answered_as_the_person_said(kind, words, request, tmp_path):
    before = request.getfixturevalue(kind)
    names, texts = list(before.vocab_.names), [words, words[:-1], "a few words that nobody wrote"]
    said = texts[0], texts[2]
    found = [tags.names for tags in before.tag(texts, 3)]
    right, wrong = [name for name in names if name not in found[0]][:2] or names[-2:], found[0][:2]
    right = [name for name in right if name not in wrong]
    taught = copy(before).learn(said, [right] * 2, rejected=[wrong] * 2)
    for one in (taught, Tagger.load(taught.save(tmp_path / kind))):
        for text in said:
            tags = one.tag_one(text, len(names))
            assert set(tags.names[: len(right)]) == set(right)
            assert all(tag.score >= 0.99 for tag in tags[: len(right)])
            assert not set(wrong) & set(tags.names)
            assert one.explain(text, wrong[0]).verdict.reason == "rejected"
            assert "a person said so" in one.explain(text, right[0]).verdict.words
            assert right[0] not in one.tag_one(text, 3, exclude=right).names
            assert one.tag_one(text, 3, restrict=[right[0]]).names == [right[0]]
            assert one.tag_one(text, 3, restrict=wrong) == ()
        assert one.tag(texts, 3) == [one.tag_one(text, 3) for text in texts]
        one.update_labels(mask=right)
        assert not set(right) & set(one.tag_one(said[0], 9).names)
        one.update_labels(unmask=right)
        plain = copy(one)
        plain.learned_ = LearnedRows()
        assert plain.tag_one(texts[1], 3) == one.tag_one(texts[1], 3)  # other texts are left to the model
    assert [tags.names for tags in before.tag(texts, 3)] == found


def test_people_who_disagree_leave_a_label_to_the_model(tagger):
    first = tagger.tag_one("oak", 4).names
    for key, right, wrong in (("ann", "water", "stars"), ("bob", "stars", "water"), ("cid", "stones", "trees")):
        tagger.learn(["oak"], [[right]], rejected=[[wrong]], keys=[key])
    names = tagger.tag_one("oak", 4).names
    assert names[0] == "stones"
    assert "trees" not in names
    assert {"trees"} <= set(first)
    tagger.learn(["oak"], [["water"]], keys=["bob"])  # who has changed his mind
    assert set(tagger.tag_one("oak", 2).names) == {"water", "stones"}
    tagger.learn(["elm"], [["trees"]], keys=["cid"])  # the key now stands for another text
    assert tagger.tag_one("oak", 1).names == ["water"]


def test_what_was_trained_with_feedback_is_answered_as_people_said(tmp_path):
    texts, labels = make_library(60)
    rows = [{"text": text, "labels": row} for text, row in zip(texts, labels, strict=True)]
    data = write(tmp_path / "rows.jsonl", rows)
    feedback = write(tmp_path / "f.jsonl", [{"text": "oak", "accepted": ["stars"], "rejected": ["trees"]}])
    target = str(tmp_path / "model")
    assert run(["train", data, "-O", target, "--with-feedback", feedback, "--quality", "fast"]) == 0
    found = Tagger.load(target).tag_one("oak", 4).names
    assert found[0] == "stars"
    assert "trees" not in found


def test_models_without_a_memory_say_so():
    texts, labels = make_library(40)
    tree = Tagger(model=LinearTree(threads=1)).fit(texts, labels)
    with pytest.raises(InputError, match="memory of texts; got LinearTree"):
        tree.learn(["oak"], [["water"]])


def test_lengths_must_agree(tagger):
    with pytest.raises(InputError, match="keys must have one entry"):
        tagger.learn(["oak"], [["water"]], keys=["a", "b"])


def test_rejected_rows_are_seen_in_the_leaf_of_the_label_only():
    X = np.eye(6, dtype=np.float32)
    y = [[0], [1], [2], [3], [4], [5]]
    model = LinearTree(threads=1, arity=2, max_leaf_size=2).fit(X, y)
    tree = model.trees_[0].tree
    Y = sparse.csr_array(np.eye(6, dtype=np.float32))
    rejected = sparse.csr_array(([1.0], ([3], [0])), shape=(6, 6), dtype=np.float32)
    training = TreeTraining(csr_parts(sparse.csr_array(X)), entry_weights(Y, None, 0.0), 1.0, Solver(), 0, 1)
    teacher = training.rows_of_nodes(tree)
    seen = with_rejected_rows(teacher, tree, csr_parts(sparse.csr_array(rejected.T)), 6)
    leaf = int(tree.leaf_of_copy[np.flatnonzero(tree.labels == 0)[0]])
    for node in range(tree.n_nodes):
        before = teacher.rows[teacher.ptr[node] : teacher.ptr[node + 1]].tolist()
        after = seen.rows[seen.ptr[node] : seen.ptr[node + 1]].tolist()
        assert after == (sorted({*before, 3}) if node == leaf else before)
    assert seen.rows[seen.guests == 1].tolist() == [3]


def test_a_rejected_label_teaches_its_neighbours_in_the_leaf_nothing():
    """Labels 0 and 1 share a leaf; the row of label 2, which rejects 0, is no example against 1."""
    X = sparse.csr_array(np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 1, 0]], dtype=np.float32))
    y, tree = [[0], [1], [2], [3]], LabelTree.from_nested([[0, 1], [2, 3]])
    wrong = sparse.csr_array(([1.0], ([2], [0])), shape=(4, 4), dtype=np.float32)
    solver = Solver(threshold=0.0, weights="float32", tolerance=1e-4)
    plain, taught = (
        LinearTree(threads=1, solver=solver, rare_label_weight=0.0).fit(X, y, tree=tree, rejected=given).trees_[0]
        for given in (None, wrong)
    )
    leaf = np.full(4, 1, dtype=np.int32)
    of_rejected, of_neighbour = (
        [one.margins(csr_parts(X), np.arange(4), leaf, leaf * output, 1) for one in (plain, taught)]
        for output in (0, 1)
    )
    assert of_rejected[1][2] < of_rejected[0][2] - 0.1
    np.testing.assert_allclose(of_neighbour[1], of_neighbour[0], atol=1e-3)


def test_a_rejected_label_gets_a_lower_score_by_training():
    texts, labels = make_library(120)
    data = Dataset(*_matrix(labels), texts=texts)
    wrong = feedback_rows(
        [FeedbackRecord(str(n), "sun oak", f"p{n}", "", [], ["trees"]) for n in range(12)], data.vocab
    )
    model = LinearTree(threads=1, max_leaf_size=2, arity=2)
    plain, taught = (Tagger(model=model, sets=_no_holdout()).fit(rows) for rows in (data, with_feedback(data, wrong)))
    label = data.vocab.id("trees")
    score = [one.model_.score_labels(one.encoder_.transform(["sun oak"]), [[0, label]])[0] for one in (plain, taught)]
    assert score[1] < score[0]


def _no_holdout():
    from tagwood.tagger import SetRules

    return SetRules(holdout=0.0)


def _matrix(labels):
    from tagwood.tagger.fitting import label_sets

    return label_sets(labels, None)


VOCAB = LabelVocab.from_names(["oak", "sea"], uris=["http://e/0", "http://e/1"])


def test_records_of_different_people_are_kept_and_later_ones_replace_earlier(tmp_path):
    lines = [
        {"id": "1", "text": "t", "by": "ann", "accepted": ["oak"], "untouched": ["sea"]},
        {"id": "2", "text": "t", "by": "bob", "rejected": [{"uri": "http://e/0", "label": "oak"}]},
        {"id": "3", "text": "t", "by": "ann", "added": ["sea", "new"], "rejected": ["oak"]},
        {"id": "4", "text": "u", "labels": []},
    ]
    path = tmp_path / "f.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_feedback(path, VOCAB)
    assert found.ids == ["3", "2"]
    assert found.labels.toarray().tolist() == [[0, 1], [0, 0]]
    assert found.rejected.toarray().tolist() == [[1, 0], [1, 0]]
    assert (found.n_records, found.n_empty, dict(found.proposals)) == (4, 1, {"new": 1})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"text": "t"}', "has no decisions"),
        ('{"accepted": []}', "'text' must be a text"),
        ('{"text": "t", "accepted": ["oak"], "rejected": ["oak"]}', "'oak' is right and rejected"),
        ("[]", "not a JSON object"),
    ],
)
def test_wrong_records_are_named_by_line(tmp_path, line, words):
    (tmp_path / "f.jsonl").write_text('{"text": "a", "labels": ["oak"]}\n' + line + "\n")
    with pytest.raises(DataError, match=words) as error:
        read_feedback(tmp_path / "f.jsonl", VOCAB)
    assert error.value.line == 2


@pytest.fixture
def stored(tagger, tmp_path):
    tagger.save(tmp_path / "model")
    return tmp_path / "model"


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def test_the_command_learns_and_does_not_learn_twice(stored, tmp_path, capsys):
    texts, labels = make_library(150)
    records = [{"text": f"{text} {n}", "labels": row} for n, (text, row) in enumerate(zip(texts, labels, strict=True))]
    path = write(tmp_path / "f.jsonl", records)
    assert run(["learn", str(stored), path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["learned"] == 150
    assert found["measured"]["n_rows"] >= 20
    assert run(["learn", str(stored), path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["learned"] == 0


def test_a_model_that_learned_feedback_is_replaced_by_one_that_was_trained_with_it(stored, tmp_path, capsys):
    # The old model knows the held-out texts by heart; it is compared as if it did not.
    texts, labels = make_library(150)
    wrong = {"trees": "water", "water": "trees"}
    records = [
        {"text": f"{text} {n}", "labels": sorted({wrong.get(name, name) for name in row})}  # nobody could know these
        for n, (text, row) in enumerate(zip(texts, labels, strict=True))
    ]
    path = write(tmp_path / "f.jsonl", records)
    data = write(tmp_path / "d.jsonl", [{"text": t, "labels": r} for t, r in zip(*make_library(80), strict=True)])
    assert run(["learn", str(stored), path, "--force"]) == 0
    assert run(["train", data, "-O", str(stored), "-f", "--model", "neighbours", "--with-feedback", path]) == 0
    assert "nDCG@5 100.0" not in capsys.readouterr().err


def test_a_copy_that_forgets_texts_does_not_know_what_was_said_of_them(tagger):
    before = tagger.tag_one("oak sea zebra", 4)
    tagger.learn(["oak sea zebra", "stars"], [["stones"]] * 2)
    assert tagger.tag_one("oak sea zebra", 1).names == ["stones"]
    assert tagger.forgetting(["something else"]) is tagger
    found = tagger.forgetting(["oak sea zebra", "stars"])
    assert found.tag_one("oak sea zebra", 4) == before
    assert tagger.tag_one("oak sea zebra", 1).names == ["stones"]


def test_the_answer_to_a_corrected_text_does_not_depend_on_the_texts_beside_it():
    texts, labels, names = mixed_rows(1000, 60)
    vocab = LabelVocab.from_names(names)
    tagger = Tagger(quality="balanced").fit(texts[:700], labels[:700], vocab=vocab)
    tagger.learn(texts[700:720], [[names[59]]] * 20, rejected=[names[:59], *[[names[0]]] * 19])
    assert tagger.tag(texts[700:720]) == [tagger.tag_one(text) for text in texts[700:720]]


def test_a_model_that_became_worse_is_not_written(stored, tmp_path, capsys):
    texts, labels = make_library(150)
    names = ["trees", "water", "stars", "stones"]
    records = []
    for number, (text, row) in enumerate(zip(texts, labels, strict=True)):
        rows = feedback_rows([FeedbackRecord("", f"{text} {number}", "", "", row, [])], LabelVocab.from_names(names))
        wrong = [name for name in names if name not in row][:1]  # held-out texts are right, all others wrong
        records.append({"text": f"{text} {number}", "labels": row if rows.held_out()[0] else wrong})
    path = write(tmp_path / "f.jsonl", records)
    before = (stored / "manifest.json").read_bytes()
    assert run(["learn", str(stored), path]) == 2
    assert "must not become worse" in capsys.readouterr().err
    assert (stored / "manifest.json").read_bytes() == before
    assert run(["learn", str(stored), path, "--force"]) == 0
    assert (stored / "manifest.json").read_bytes() != before


def test_training_with_feedback_adds_rows_and_remembers_them(tmp_path, capsys):
    texts, labels = make_library(60)
    data = write(tmp_path / "d.jsonl", [{"text": t, "labels": r} for t, r in zip(texts, labels, strict=True)])
    path = write(tmp_path / "f.jsonl", [{"id": "x", "text": "oak zebra", "accepted": ["water"], "rejected": ["trees"]}])
    model = str(tmp_path / "m")
    assert run(["train", data, "-O", model, "--model", "neighbours", "--with-feedback", path]) == 0
    assert "1 right and 1 rejected labels" in " ".join(capsys.readouterr().err.split())
    loaded = Tagger.load(model)
    assert loaded.n_rows_ == 61
    assert loaded.model_.rejected_.labels.size == 1
    assert run(["learn", model, path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["learned"] == 0
