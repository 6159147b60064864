import json

import pytest
from two_topics import THINGS, TOPICS, two_topics

from tagwood import Disentangled, LinearTree, SoftmaxTree, Tagger, TfidfEncoder
from tagwood.cli.app import run
from tagwood.errors import InputError
from tagwood.tagger import SetRules


@pytest.fixture(scope="module")
def topics():
    return two_topics()[2]


@pytest.fixture(scope="module")
def tagger():
    texts, labels, _ = two_topics()
    model = Disentangled(LinearTree(max_leaf_size=8, arity=2), rounds=3, threads=1)
    encoder = TfidfEncoder(ngrams=(1, 1), threads=1)
    return Tagger(encoder, model, sets=SetRules(holdout=0)).fit(texts, labels)


@pytest.fixture(scope="module")
def folder(tagger, tmp_path_factory):
    return tagger.save(tmp_path_factory.mktemp("models") / "model")


def topics_in(words):
    return {topic for topic in TOPICS for word in words if word.startswith(topic) and word != topic}


def test_the_senses_name_both_topics(tagger, topics):
    both = [name for name in topics if len(tagger.senses(name).senses) == 2]
    assert len(both) >= 20
    told = 0
    for name in both:
        found = [topics_in(sense.words[:4]) for sense in tagger.senses(name).senses]
        told += {next(iter(one)) for one in found if len(one) == 1} == topics[name]
    assert told >= 0.75 * len(both)  # the other leaves hold labels of two topics


def test_a_sense_has_its_own_texts_and_neighbours(tagger, topics):
    found = next(tagger.senses(name) for name in topics if len(tagger.senses(name).senses) == 2)
    assert found.rows == tagger.label_counts_[found.label]
    assert 0 < found.difference <= 1
    for sense in found.senses:
        assert sense.examples
        assert found.name not in [one.name for one in sense.beside]
        for example in sense.examples:
            assert topics_in(example.text.split()) <= topics_in(sense.words)
    shown = [{one.text for one in sense.examples} for sense in found.senses]
    assert not shown[0] & shown[1]


def test_senses_are_json_and_text(tagger):
    found = tagger.senses("label 03")
    assert json.loads(found.to_json())["name"] == "label 03"
    assert len(json.loads(found.to_json())["senses"]) == len(found.senses)
    assert found.to_text().startswith("label 03: ")
    assert f"leaf {found.senses[0].leaf}" in found.to_text()


def test_the_most_different_labels_come_first(tagger):
    found = tagger.most_different(10)
    assert len(found) == 10
    gaps = [one.difference for one in found]
    assert gaps == sorted(gaps, reverse=True)
    for one in found[:3]:
        report = tagger.senses(one.label)
        assert report.difference == pytest.approx(one.difference)
        assert sorted(one.leaves) == sorted(sense.leaf for sense in report.senses)
    assert tagger.most_different(10, least_rows=10**6) == []


def test_labels_of_a_plain_tree_have_one_sense():
    texts = [f"{thing} {topic}" for thing in THINGS for topic in TOPICS]
    labels = [[thing] for thing in THINGS for _ in TOPICS]
    tagger = Tagger(model=LinearTree(max_leaf_size=2, threads=1), keep_texts=0).fit(texts, labels)
    found = tagger.senses("bar")
    assert len(found.senses) == 1
    assert found.difference == 0
    assert found.senses[0].examples == ()
    assert "bar" in found.senses[0].words
    assert tagger.most_different() == []


def test_models_without_a_linear_tree_have_no_senses():
    texts = [f"{thing} {topic}" for thing in THINGS for topic in TOPICS]
    tagger = Tagger(model=SoftmaxTree(threads=1)).fit(texts, [[thing] for thing in THINGS for _ in TOPICS])
    with pytest.raises(InputError, match="senses need a model with a linear tree; got SoftmaxTree"):
        tagger.senses("bar")


def test_show_tells_the_senses_of_a_label(folder, capsys):
    assert run(["show", str(folder), "--label", "label 03", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["name"] == "label 03"
    assert {"tree", "leaf", "path", "words", "beside", "examples"} == shown["senses"][0].keys()
    assert run(["show", str(folder), "--label", "label 03"]) == 0
    assert capsys.readouterr().out.startswith("label 03: ")
    assert run(["show", str(folder), "--label", "lebel 03"]) == 2
    assert "label 03" in capsys.readouterr().err


def test_the_command_lists_labels_with_different_meanings(folder, capsys):
    assert run(["senses", str(folder), "--limit", "3", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["labels"]
    assert len(listed) == 3
    assert all(len(one["leaves"]) == 2 for one in listed)
    assert run(["senses", str(folder)]) == 0
    assert listed[0]["name"] in capsys.readouterr().out
    assert run(["senses", str(folder), "--least-rows", "1000000"]) == 0
    assert "Every label is in one leaf" in capsys.readouterr().err


def test_a_stored_tagger_explains_labels_with_copies(folder, tagger):
    loaded = Tagger.load(folder)
    texts, labels, _ = two_topics(5, seed=9)
    for text, (label,) in zip(texts, labels, strict=True):
        found = loaded.explain(text, label)
        assert found.suggested
        assert found.place == 1
        assert found.model_score == pytest.approx(tagger.tag_one(text, 1)[0].score, abs=1e-4)
