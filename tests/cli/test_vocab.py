"""`tagwood vocab list|diff|load`: tables of models and files, and a model that changes in one step or not at all."""

import json
import sys

import pytest
from library import make_library

from tagwood import LabelVocab, LinearTree, Tagger
from tagwood.cli.app import run
from tagwood.storage import read_manifest

SKOS = """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
<urn:t> a skos:Concept ; skos:prefLabel "woods"@en, "Wald"@de .
<urn:w> a skos:Concept ; skos:prefLabel "water"@en, "Wasser"@de .
<urn:x> a skos:Concept ; skos:prefLabel "stones"@en, "Steine"@de ; owl:deprecated true .
<urn:f> a skos:Concept ; skos:prefLabel "fishing"@en, "Fischerei"@de ; skos:notation "F" ; skos:broader <urn:w> ;
  skos:altLabel "angling"@en ; skos:definition "Hunting trout in a river, and oak"@en .
"""
URIS = {"trees": "urn:t", "water": "urn:w", "stars": "urn:s", "stones": "urn:x"}


@pytest.fixture(scope="module")
def trained():
    names = list(URIS)
    vocab = LabelVocab.from_names(names, uris=list(URIS.values()))
    return Tagger(model=LinearTree(threads=1), keep_texts=0).fit(*make_library(100), vocab=vocab)


@pytest.fixture
def model(trained, tmp_path):
    trained.save(tmp_path / "model", notes="a first try")
    return str(tmp_path / "model")


@pytest.fixture
def skos(tmp_path):
    pytest.importorskip("pyoxigraph")
    path = tmp_path / "subjects.ttl"
    path.write_text(SKOS)
    return str(path)


def as_json(capsys, *arguments):
    assert run(["vocab", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_list_shows_rows_names_and_uris(model, trained, capsys):
    assert run(["vocab", "list", model, "--sort", "rows", "-l", "2"]) == 0
    out, err = capsys.readouterr()
    first = out.splitlines()[0].split()
    assert int(first[0]) == trained.label_counts_.max()
    assert first[2] == f"<{URIS[first[1]]}>"
    assert "2 of 4 labels; -l 0 lists all." in err
    assert run(["vocab", "list", model, "--sort", "name", "-l", "0"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == sorted(URIS)


def test_list_filters_names_in_all_languages_and_uris(skos, capsys):
    for needle in ("WALD", "urn:t", "ood"):
        assert [one["name"] for one in as_json(capsys, "list", skos, "--filter", needle)["listed"]] == ["woods"]
    found = as_json(capsys, "list", skos, "--filter", "fish", "-L", "de")["listed"][0]
    assert (found["name"], found["notation"], found["broader"]) == ("Fischerei", "F", [1])
    assert found["languages"] == {"en": "fishing", "de": "Fischerei"}
    assert [one["uri"] for one in as_json(capsys, "list", skos, "--masked")["listed"]] == ["urn:x"]
    assert run(["vocab", "list", skos, "--filter", "unicorn"]) == 0
    assert capsys.readouterr().err == "No matching label.\n"


def test_list_writes_a_table_that_is_the_same_vocabulary(skos, tmp_path, capsys):
    table = str(tmp_path / "subjects.csv")
    assert run(["vocab", "list", skos, "-O", table]) == 0
    assert as_json(capsys, "diff", skos, table)["same"]
    assert run(["vocab", "list", skos, "-O", table]) == 2
    assert "exists already" in capsys.readouterr().err


def test_diff_names_added_removed_renamed_and_masked(model, skos, capsys):
    found = as_json(capsys, "diff", model, skos)
    names = {kind: [one["name"] for one in found[kind]] for kind in ("added", "removed", "renamed", "masked")}
    assert names == {"added": ["fishing"], "removed": ["stars"], "renamed": ["woods"], "masked": ["stones"]}
    assert (found["by"], found["same"], found["renamed"][0]["before"]) == ("uri", False, "trees")
    assert run(["vocab", "diff", model, skos]) == 0
    out, err = capsys.readouterr()
    assert "renamed 1\n  trees -> woods  <urn:t>\n" in out
    assert "4 and 4 labels, compared by uri" in err


def test_diff_of_the_same_says_so_and_shortens_long_lists(model, tmp_path, capsys):
    assert run(["vocab", "diff", model, model]) == 0
    assert capsys.readouterr() == ("", "4 and 4 labels, compared by id\nNo change.\n")
    (tmp_path / "none.tsv").write_text("uri\tname\nurn:z\tnothing\n")
    assert run(["vocab", "diff", model, str(tmp_path / "none.tsv"), "-l", "1"]) == 0
    assert "removed 4\n  trees  <urn:t>\n  ... 3 more\n" in capsys.readouterr().out


def test_load_renames_masks_and_keeps_the_passport(model, skos, capsys):
    before = Tagger.load(model)
    facts = as_json(capsys, "load", model, skos)
    assert [one["name"] for one in facts["renamed"]] == ["woods"]
    assert [one["name"] for one in facts["masked"]] == ["stones"]
    assert (facts["left_out"], facts["missing"], facts["language"], facts["by"]) == (1, 1, None, "uri")
    after = Tagger.load(model, verify=True)
    assert after.tag_one("oak bark", k=1).names == ["woods"]
    assert after.tag_one("oak bark", k=1, language="de").names == ["Wald"]
    assert "stones" not in after.tag_one("slate quarry granite", k=9).names
    assert read_manifest(model).notes == "a first try"
    assert (after.fingerprint_, after.n_rows_) == (before.fingerprint_, before.n_rows_)


def test_a_second_load_changes_nothing(model, skos, capsys):
    run(["vocab", "load", model, skos, "--add"])
    created = read_manifest(model)
    capsys.readouterr()
    facts = as_json(capsys, "load", model, skos, "--add")
    assert (facts["changed"], facts["renamed"], facts["added"]) == (False, [], [])
    assert read_manifest(model) == created


def test_added_labels_are_suggested_by_their_words(model, skos, tmp_path, capsys):
    target = str(tmp_path / "next")
    assert run(["vocab", "load", model, skos, "--add", "--mask-missing", "-O", target]) == 0
    out = capsys.readouterr().out
    assert "added 1\n  fishing  <urn:f>" in out
    assert "masked 2" in out
    tags = Tagger.load(target).tag_one("hunting in a river", k=9)
    assert ("fishing", "urn:f") in [(tag.name, tag.uri) for tag in tags]
    assert "stars" not in tags.names
    assert "fishing" not in Tagger.load(target).tag_one("slate quarry", k=9).names
    assert Tagger.load(model).tag_one("oak bark", k=1).names == ["trees"]


def test_the_language_of_names_and_descriptions_can_be_chosen(model, skos, capsys):
    facts = as_json(capsys, "load", model, skos, "-L", "de", "--add")
    assert [one["name"] for one in facts["renamed"]] == ["Wald", "Wasser", "Steine"]
    assert Tagger.load(model).new_labels_.descriptions() == {4: "Fischerei"}


def test_a_dry_run_changes_nothing(model, skos, capsys):
    before = read_manifest(model)
    assert run(["vocab", "load", model, skos, "--add", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert "fishing" in out
    assert "would change" in " ".join(err.split())
    assert read_manifest(model) == before


def test_an_interrupt_leaves_the_model_as_it_was(model, skos, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    before = read_manifest(model)
    monkeypatch.setattr("tagwood.storage.save_load._write", interrupt)
    assert run(["vocab", "load", model, skos]) == 130
    assert read_manifest(model) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "subjects.ttl"]


def test_vocab_alone_shows_its_commands(capsys):
    assert run(["vocab"]) == 0
    out = capsys.readouterr().out
    assert all(f" {name} " in out for name in ("list", "diff", "load"))


@pytest.mark.parametrize("name", ["list", "diff", "load"])
def test_every_subcommand_has_help_and_json(name, capsys):
    assert run(["vocab", name, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lst", "{model}"], "Did you mean 'list'?"),
        (["list", "{none}"], "there is no such file"),
        (["list", "{model}", "--sort", "nme"], "Did you mean 'name'?"),
        (["list", "{model}", "-O", "{new}.txt"], "must end in .tsv or .csv"),
        (["list", "{model}", "-O", "{new}.tsv", "--masked"], "writes the whole table"),
        (["diff", "{model}", "{other}", "--by", "uri"], "both tables must have URIs"),
        (["load", "{model}", "{other}"], "must have labels in common; got none by name"),
        (["load", "{model}", "{other}", "-L", "de"], "must be one that other.tsv has names in; got 'de'"),
        (["load", "{other}", "{model}"], "other.tsv"),
        (["load", "{model}", "{model}", "-O", "{model}"], "there is a model in this folder already"),
    ],
)
def test_mistakes_are_named_with_exit_code_2(model, tmp_path, arguments, message, capsys):
    (tmp_path / "other.tsv").write_text("name\nunicorns\n")
    places = {
        "model": model,
        "none": tmp_path / "none.tsv",
        "other": tmp_path / "other.tsv",
        "new": tmp_path / "new",
    }
    assert run(["vocab", *(argument.format(**places) for argument in arguments)]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "other.tsv"]


def test_without_pyoxigraph_the_message_says_what_to_install(skos, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    assert run(["vocab", "list", skos]) == 1
    assert "pip install 'tagwood[skos]'" in capsys.readouterr().err


def test_undo_goes_back_to_the_vocabulary_before(model, skos, capsys):
    before = Tagger.load(model)
    assert run(["vocab", "load", model, skos, "--add"]) == 0
    assert "fishing" in Tagger.load(model).tag_one("angling", 5).names
    capsys.readouterr()
    assert as_json(capsys, "undo", model) == {"model": model, "labels_before": 5, "labels": 4}
    after = Tagger.load(model, verify=True)
    assert after.vocab_ == before.vocab_
    assert after.tag(["oak bark", "angling"], 9) == before.tag(["oak bark", "angling"], 9)
    assert run(["vocab", "undo", model]) == 2
    assert "there must be an earlier vocabulary to go back to" in capsys.readouterr().err


def test_labels_without_rows_are_returned_only_if_they_are_switched_on(tmp_path, capsys):
    vocab = LabelVocab.from_names([*URIS, "glacier ice"])
    Tagger(model=LinearTree(threads=1)).fit(*make_library(100), vocab=vocab).save(tmp_path / "model")
    model = str(tmp_path / "model")
    assert "glacier ice" not in Tagger.load(model).tag_one("glacier ice", 9).names
    assert as_json(capsys, "untrained", model, "--on")["untrained"] == 1
    assert Tagger.load(model).tag_one("glacier ice", 9).names[0] == "glacier ice"
    assert as_json(capsys, "untrained", model, "--off")["untrained"] == 0
    assert "glacier ice" not in Tagger.load(model).tag_one("glacier ice", 9).names


def test_details_of_a_thesaurus_are_stored_shown_and_filter(model, skos, tmp_path, capsys):
    assert run(["vocab", "load", model, skos, "--add"]) == 0
    tagger = Tagger.load(model)
    card = tagger.label_card("F")  # by its notation
    assert (card.name, card.notation, card.alternatives) == ("fishing", ("F",), ("angling",))
    assert [one.name for one in card.broader] == ["water"]
    capsys.readouterr()
    text = "angling for trout in the tide of a river, by an oak"
    assert run(["predict", model, text, "--restrict-branch", "Wasser", "-l", "9", "--json"]) == 0
    assert {tag["label"] for tag in json.loads(capsys.readouterr().out)["labels"]} == {"water", "fishing"}
    listed = tmp_path / "labels.txt"
    listed.write_text("angling\n\nurn:t\n")
    assert run(["predict", model, text, "--restrict-file", str(listed), "-l", "9", "--json"]) == 0
    assert {tag["label"] for tag in json.loads(capsys.readouterr().out)["labels"]} == {"woods", "fishing"}
    assert run(["predict", model, text, "--restrict-branch", "nothing"]) == 2
    assert run(["vocab", "list", model, "-O", str(tmp_path / "table.tsv")]) == 0
    from tagwood.data import read_vocab

    again = read_vocab(tmp_path / "table.tsv")
    assert again.details == tagger.vocab_.details
