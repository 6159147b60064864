import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tagwood import demo as pydocs
from tagwood.data.dataset import Dataset
from tagwood.demo import corpus
from tagwood.demo import corpus as cache
from tagwood.demo import corpus as names
from tagwood.demo import modules as sources
from tagwood.demo.corpus import cut
from tagwood.demo.modules import Module, compiled_docs, read_module
from tagwood.errors import InputError

FOREST = {
    "__init__.py": '''
"""Trees and how to count them in a wood."""
from ._count import count_trees as count, Counter
from .saws import *
import does_not_exist_and_must_not_be_imported
''',
    "_count.py": '''
def count_trees(wood):
    """Count the trees of a wood.

    This calls count_trees(wood) once for each part of the wood.

    Parameters
    ----------
    wood : list of tree
        The wood whose trees are to be counted.

    See Also
    --------
    cut_tree : Fell one tree of the wood.
    """

class Counter:
    """Count things that stand in a wood."""
    def add(self, tree):
        """Add one tree to those counted so far."""
    def _hidden(self):
        """Do something nobody should see at all."""

def unseen():
    """Be a private helper that nobody exports here."""
''',
    "saws.py": '''
__all__ = ["cut_tree"]
def cut_tree(tree):
    """Fell one tree with a hand saw.

    The parts are returned in the order of their weight.
    """
def lost():
    """Be public in form but missing from the list."""
''',
}


@pytest.fixture
def forest(tmp_path, monkeypatch) -> Path:
    """A package `forest` on the path that cannot be imported, only parsed."""
    folder = tmp_path / "forest"
    folder.mkdir()
    for name, text in FOREST.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


@pytest.fixture(scope="module")
def real() -> tuple[Dataset, Dataset]:
    return pydocs.build(["stdlib", "numpy"], cache=False)


def whole(parts: tuple[Dataset, Dataset]) -> dict[str, tuple[str, set[str]]]:
    """Text -> (group, label names) of both parts."""
    found = {}
    for part in parts:
        assert part.texts is not None
        assert part.groups is not None
        for text, group, labels in zip(part.texts, part.groups, part.label_lists(), strict=True):
            found[text] = group, {part.vocab.name(label) for label in labels}
    return found


def test_passages_carry_object_module_and_see_also_under_public_names(forest):
    rows = whole(pydocs.build(["forest"], cache=False))
    group, labels = rows["Count the trees of a wood."]
    assert group == "forest.count"
    assert labels == {"forest.count", "forest", "forest.cut_tree"}


def test_see_also_is_not_part_of_any_text(forest):
    assert not [text for text in whole(pydocs.build(["forest"], cache=False)) if "cut_tree" in text]


def test_methods_have_their_class_as_a_label(forest):
    _, labels = whole(pydocs.build(["forest"], cache=False))["Add one tree to those counted so far."]
    assert labels == {"forest.Counter.add", "forest.Counter", "forest"}


def test_private_and_unexported_objects_are_left_out(forest):
    texts = " ".join(whole(pydocs.build(["forest"], cache=False)))
    assert "nobody" not in texts
    assert "missing from the list" not in texts


def test_a_package_that_cannot_be_imported_is_parsed_all_the_same(forest):
    with pytest.raises(ImportError):
        __import__("forest")
    assert pydocs.build(["forest"], cache=False)[0].n_rows > 0


def test_a_module_with_a_syntax_error_is_passed_over(forest):
    (forest / "broken.py").write_text("def f(:\n")
    assert pydocs.build(["forest"], cache=False)[0].n_rows > 0


def test_unknown_packages_are_refused_with_a_hint():
    with pytest.raises(
        InputError, match=r"package 'no_such_thing' must be installed as Python source.*stdlib"
    ):
        pydocs.build(["no_such_thing"])
    with pytest.raises(InputError, match="at least one package name; got 'numpy'"):
        pydocs.build("numpy")


def test_real_corpus_has_thousands_of_labels_and_passages(real):
    train, test = real
    assert train.n_labels > 3000
    assert train.n_rows > 10_000
    assert 0.1 < test.n_rows / train.n_rows < 0.3


def test_no_text_stands_on_both_sides_or_twice(real):
    train, test = real
    texts = [" ".join(text.casefold().split()) for part in (train, test) for text in part.texts]
    assert len(texts) == len(set(texts))


def test_every_label_has_a_training_row(real):
    train, _ = real
    assert np.asarray(train.labels.sum(axis=0)).min() >= 1


def test_groups_are_whole_docstrings(real):
    rows = whole(real)
    sort = [labels for group, labels in rows.values() if group == "numpy.sort"]
    assert len(sort) > 5
    assert all({"numpy.sort", "numpy", "numpy.argsort"} <= labels for labels in sort)


@pytest.mark.parametrize(
    "name",
    ["numpy.sin", "str.split", "os.path.join", "collections.abc.Mapping", "numpy.linalg.norm", "math.sqrt"],
)
def test_known_objects_are_labels_under_the_names_users_write(real, name):
    assert real[0].vocab.find(name) is not None


def test_no_label_is_private(real):
    private = [name for name in real[0].vocab.names if not names.is_public(name)]
    assert private == []


def test_the_same_packages_give_the_same_corpus(forest):
    first, again = (pydocs.build(["forest"], cache=False) for _ in range(2))
    assert [part.fingerprint() for part in first] == [part.fingerprint() for part in again]


def test_re_exports_of_scipy_are_resolved():
    found = [source for source in sources.find_sources(["scipy"]) if source.module.startswith("scipy.signal")]
    modules = {
        source.module: read_module(source.path.read_text(), source.module, is_package=source.is_package)
        for source in found
    }
    best, _ = names.public_names({name: module for name, module in modules.items() if module})
    assert best["scipy.signal._savitzky_golay", "savgol_filter"] == "scipy.signal.savgol_filter"
    assert best["scipy.signal.windows._windows", "hann"] == "scipy.signal.windows.hann"


def test_circles_of_star_imports_end():
    modules = {
        "a": Module("a", is_package=True, stars=["a.b"]),
        "a.b": Module("a.b", is_package=False, stars=["a"], docs={"f": "Do it."}),
    }
    assert names.public_names(modules)[0] == {("a.b", "f"): "a.f"}


def test_the_cache_is_used_and_rebuilt_when_damaged(forest, tmp_path):
    folder = tmp_path / "cache"
    first = pydocs.build(["forest"], cache=folder)
    (file,) = folder.iterdir()
    (forest / "saws.py").write_text("")
    assert pydocs.build(["forest"], cache=folder)[0].fingerprint() == first[0].fingerprint()
    content = file.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"not gzip", gzip.compress(b'{"rows": 3}')):
        file.write_bytes(damaged)
        assert pydocs.build(["forest"], cache=folder)[0].n_rows < first[0].n_rows
        assert cache.load(file) is not None
    assert len(list(folder.iterdir())) == 1


def test_altered_cache_rows_are_not_trusted(tmp_path):
    file = tmp_path / "rows.json.gz"
    cache.store(file, [corpus.Row("a text", "g", ["l"])])
    content = json.loads(gzip.decompress(file.read_bytes()))
    content["rows"][0][0] = "another text"
    file.write_bytes(gzip.compress(json.dumps(content).encode()))
    assert cache.load(file) is None


def test_a_cache_folder_that_cannot_be_made_is_no_error(forest, tmp_path):
    (tmp_path / "file").write_text("")
    assert pydocs.build(["forest"], cache=tmp_path / "file" / "cache")[0].n_rows > 0


def test_the_cache_is_keyed_by_versions(tmp_path):
    files = {cache.file_for(tmp_path, {"numpy": version}) for version in ("2.0", "2.1")}
    assert len(files) == 2


def test_progress_counts_up_to_the_last_file(forest):
    calls = []
    pydocs.build(["forest"], cache=False, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_boilerplate_is_dropped_and_rare_repetitions_are_joined():
    def entry(name: str, doc: str) -> corpus.Entry:
        return corpus.Entry(name, "m", "m", doc)

    often = [entry(f"m.f{i}", "Say the same as all the others do.") for i in range(6)]
    twice = [entry(f"m.g{i}", "Say the same as just one other.") for i in range(2)]
    (row,) = corpus.make_rows([*often, *twice], {})
    assert row.labels == ["m.g0", "m", "m.g1"]
    assert row.group == "m.g0"


def test_examples_keep_code_and_leave_out_what_it_prints():
    texts, _ = cut("Sum it all up.\n\nExamples\n--------\nAdd two numbers with it:\n\n>>> add(1, 2)\n3\n")
    assert texts == ["Sum it all up.", "Add two numbers with it: add(1, 2)"]


def test_references_directives_and_roles_do_not_become_text():
    doc = """Solve :func:`~a.b.solve` the ``hard`` way [1]_.

    .. versionadded:: 1.0
       Some words that nobody needs to read here.

    References
    ----------
    .. [1] A. Author, A book with a long title, 1999.
    """
    assert cut(doc).texts == ["Solve a.b.solve the hard way."]


def test_see_also_lists_are_read_in_every_form():
    doc = "Do something useful.\n\nSee Also\n--------\na, b.c : First.\n:func:`d`\n    Second.\ne\n"
    assert cut(doc).see_also == ["a", "b.c", "d", "e"]


def test_compiled_docs_leave_out_second_names_and_inherited_text():
    docs = compiled_docs(["numpy"])
    assert "numpy.arccos" in docs
    assert "numpy.acos" not in docs
    assert "numpy.pi" not in docs
