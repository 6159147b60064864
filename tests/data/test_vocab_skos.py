"""SKOS files: concepts, names by language, what is deprecated; and what a damaged file or a missing extra says."""

import gzip
import sys

import pytest

from tagwood.data import read_vocab
from tagwood.data.vocab_files import rdf_format, read_skos
from tagwood.errors import DataError, InputError, MissingExtraError

pytest.importorskip("pyoxigraph")

TURTLE = """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix e: <http://e.org/> .
e:scheme a skos:ConceptScheme ; skos:prefLabel "Trees"@en .
e:2 a skos:Concept ; skos:prefLabel "ash"@en, "Esche"@de ; skos:altLabel "ash tree"@en, "Eschen"@de ;
  skos:notation "582.9" ; skos:broader e:1, e:elsewhere .
e:1 a skos:Concept ; skos:prefLabel "tree"@en, "trees"@en ; skos:definition "A tall\\n  plant"@en .
e:3 a skos:Concept ; skos:prefLabel "Ulme"@de ; owl:deprecated true .
[] a skos:Concept ; skos:prefLabel "nobody"@en .
"""
XML = """\
<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:skos="http://www.w3.org/2004/02/skos/core#">
  <skos:Concept rdf:about="http://e.org/2">
    <skos:prefLabel xml:lang="en">ash</skos:prefLabel>
    <skos:broader rdf:resource="http://e.org/1"/>
  </skos:Concept>
  <skos:Concept rdf:about="http://e.org/1"><skos:prefLabel xml:lang="en">tree</skos:prefLabel></skos:Concept>
</rdf:RDF>
"""
TRIPLES = (
    '<http://e.org/2> <http://www.w3.org/2004/02/skos/core#prefLabel> "ash"@en .\n'
    '<http://e.org/1> <http://www.w3.org/2004/02/skos/core#prefLabel> "tree"@en .\n'
    "<http://e.org/2> <http://www.w3.org/2004/02/skos/core#broader> <http://e.org/1> .\n"
)


@pytest.fixture
def trees(tmp_path):
    path = tmp_path / "trees.ttl"
    path.write_text(TURTLE)
    return path


def test_concepts_become_labels_in_the_order_of_the_file(trees):
    found = read_skos(trees)
    vocab = found.vocab
    assert list(vocab.uris) == ["http://e.org/2", "http://e.org/1", "http://e.org/3"]
    assert list(vocab.names) == ["ash", "tree", "Ulme"]
    assert [vocab.name(label, "de") for label in range(3)] == ["Esche", "tree", "Ulme"]
    assert vocab.removed_mask().tolist() == [False, False, True]
    assert (found.notations, found.broader) == (["582.9", "", ""], [[1], [], []])
    assert found.texts == ["ash; ash tree", "tree; A tall plant", "Ulme"]


def test_the_language_of_the_main_names_can_be_chosen(trees):
    found = read_skos(trees, "de")
    assert list(found.vocab.names) == ["Esche", "tree", "Ulme"]
    assert found.texts[0] == "Esche; Eschen"
    with pytest.raises(InputError, match=r"got 'fi'. It has de, en."):
        read_skos(trees, "fi")


@pytest.mark.parametrize(("name", "text"), [("a.rdf", XML), ("a.xml", XML), ("a.nt", TRIPLES), ("a.ttl", TRIPLES)])
@pytest.mark.parametrize("packed", [False, True])
def test_every_syntax_says_the_same(tmp_path, name, text, packed):
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    found = read_skos(path)
    assert (list(found.vocab.names), found.broader) == (["ash", "tree"], [[1], []])


@pytest.mark.parametrize(
    ("name", "start", "expected"),
    [
        ("a", "@prefix a: <b> .", "TURTLE"),
        ("a.txt", "PREFIX a: <b>", "TURTLE"),
        ("a", "<?xml version='1.0'?>", "RDF_XML"),
        ("a", "<http://e.org/1>\tash", None),
        ("a.tsv", "@prefix\tash", None),
        ("a.ttl.gz", "", "TURTLE"),
    ],
)
def test_files_are_known_by_their_ending_or_their_first_bytes(tmp_path, name, start, expected):
    (tmp_path / name).write_text(start)
    assert rdf_format(tmp_path / name) == expected


def test_a_label_table_can_be_read_from_skos(trees):
    vocab = read_vocab(trees)
    assert vocab.find("http://e.org/1") == vocab.find("tree") == 1
    assert read_vocab(trees, "de").name(0) == "Esche"


def test_tables_have_languages_too(tmp_path):
    (tmp_path / "a.tsv").write_text("uri\tlabel_en\tlabel_de\nu:1\tash\tEsche\nu:2\toak\t\n")
    assert list(read_vocab(tmp_path / "a.tsv", "de").names) == ["Esche", "oak"]
    with pytest.raises(InputError, match=r"got 'fi'. It has de, en."):
        read_vocab(tmp_path / "a.tsv", "fi")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.ttl", b"@prefix e: <http://e.org/> .\ne:1 e:2 oops\n", r"a.ttl, line 2: is not valid RDF"),
        ("a.rdf", b"<?xml version='1.0'?><html>", r"a.rdf.*: is not valid RDF"),
        ("a.ttl", b"", "contains no SKOS concepts"),
        ("a.nt", b"<http://e.org/1> <http://e.org/2> <http://e.org/3> .\n", "contains no SKOS concepts"),
        ("a.ttl.gz", b"\x1f\x8b\x08\x00broken", "the gzip data are damaged"),
        ("a.ttl", b"\xff\xfe\x00", "is not valid RDF"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_skos(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        read_skos(tmp_path / "none.ttl")


def test_without_pyoxigraph_the_error_says_what_to_install(trees, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tagwood\[skos\]'"):
        read_vocab(trees)
