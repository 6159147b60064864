"""The docstring corpus: rows, labels, split and cache."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

from tagwood import demo
from tagwood.data.dataset import Dataset
from tagwood.demo.docstrings import Docstring
from tagwood.errors import InputError

FOREST = {
    "__init__.py": '''
"""Trees and how to count them in a wood."""
from ._count import count_trees, Counter
from .saws import *
__all__ = ["count_trees", "Counter", "cut_tree", "saws"]
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
    """A package `forest` on the path, and an empty cache folder."""
    folder = tmp_path / "forest"
    folder.mkdir()
    for name, text in FOREST.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forget_forest()
    yield folder
    forget_forest()


def forget_forest() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "forest"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def real() -> tuple[Dataset, Dataset]:
    return demo.build(["stdlib", "numpy"], cache=False)


def whole(parts: tuple[Dataset, Dataset]) -> dict[str, tuple[str, set[str]]]:
    """Return a dictionary from text to (group, label names) of both parts."""
    found = {}
    for part in parts:
        for text, group, labels in zip(part.texts, part.groups, part.label_lists(), strict=True):
            found[text] = group, {part.vocab.name(label) for label in labels}
    return found


def test_passages_have_object_module_and_see_also_as_labels_under_public_names(forest):
    group, labels = whole(demo.build(["forest"]))["Count the trees of a wood."]
    assert group == "forest.count_trees"
    assert labels == {"forest.count_trees", "forest", "forest.cut_tree"}


def test_see_also_is_not_part_of_any_text(forest):
    assert not [text for text in whole(demo.build(["forest"])) if "cut_tree" in text]


def test_the_name_of_the_object_is_masked_in_its_passages(forest):
    assert "This calls _(wood) once for each part of the wood." in whole(demo.build(["forest"]))


def test_methods_have_their_class_as_a_label(forest):
    _, labels = whole(demo.build(["forest"]))["Add one tree to those counted so far."]
    assert labels == {"forest.Counter.add", "forest.Counter", "forest"}


def test_private_and_unexported_objects_are_left_out(forest):
    texts = " ".join(whole(demo.build(["forest"])))
    assert "nobody" not in texts
    assert "missing from the list" not in texts


@pytest.mark.parametrize("text", ["def f(:\n", "import does_not_exist", "raise SystemError"])
def test_a_module_that_cannot_be_imported_is_skipped(forest, text):
    (forest / "broken.py").write_text(text)
    assert demo.build(["forest"])[0].n_rows > 0


def test_packages_that_are_not_installed_raise_an_error_with_a_hint():
    with pytest.raises(InputError, match=r"package 'no_such_thing' must be installed.*stdlib"):
        demo.build(["no_such_thing"])
    with pytest.raises(InputError, match="at least one package name; got 'numpy'"):
        demo.build("numpy")


def test_real_corpus_has_thousands_of_labels_and_passages(real):
    train, test = real
    assert train.n_labels > 3000
    assert train.n_rows > 10_000
    assert 0.1 < test.n_rows / train.n_rows < 0.3


def test_no_text_is_on_both_sides_or_twice(real):
    texts = [" ".join(text.casefold().split()) for part in real for text in part.texts]
    assert len(texts) == len(set(texts))


def test_every_label_has_a_training_row(real):
    train, _ = real
    assert np.asarray(train.labels.sum(axis=0)).min() >= 1


def test_groups_are_whole_docstrings(real):
    sort = [labels for group, labels in whole(real).values() if group == "numpy.sort"]
    assert len(sort) > 5
    assert all({"numpy.sort", "numpy", "numpy.argsort"} <= labels for labels in sort)


@pytest.mark.parametrize(
    "name",
    [
        *("numpy.sin", "numpy.arccos", "numpy.linalg.norm", "numpy.ndarray.sort", "numpy.random.normal"),
        *("str.split", "open", "math.sqrt", "os.path.join", "os.path.exists", "collections.abc.Mapping"),
    ],
)
def test_known_objects_are_labels_under_the_names_users_write(real, name):
    assert real[0].vocab.find(name) is not None


def test_no_label_is_private_or_a_second_name(real):
    names = real[0].vocab.names
    assert [name for name in names if any(part.startswith("_") for part in name.split("."))] == []
    assert not {"numpy.acos", "io.open", "posixpath.join"} & set(names)


def test_the_same_packages_give_the_same_corpus(forest):
    first, again = (demo.build(["forest"], cache=False) for _ in range(2))
    assert [part.fingerprint() for part in first] == [part.fingerprint() for part in again]


def test_the_cache_is_used_and_rebuilt_when_damaged(forest, tmp_path):
    first = demo.build(["forest"])
    (file,) = (tmp_path / "cache" / "tagwood").iterdir()
    forget_forest()
    (forest / "saws.py").write_text("cut_tree = None")
    assert demo.build(["forest"])[0].fingerprint() == first[0].fingerprint()
    content = file.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"not gzip", gzip.compress(b'{"rows": 3}')):
        file.write_bytes(damaged)
        assert demo.build(["forest"])[0].n_rows < first[0].n_rows
    assert list(file.parent.iterdir()) == [file]


def test_a_cache_folder_that_cannot_be_made_is_no_error(forest, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert demo.build(["forest"])[0].n_rows > 0


def test_progress_counts_up_to_the_last_module(forest):
    calls = []
    demo.build(["forest"], cache=False, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 2), (2, 2)]


def test_boilerplate_is_dropped_and_rare_repetitions_are_joined():
    often = [Docstring(f"m.f{i}", "m", "m", "Say the same as all the others do.") for i in range(6)]
    twice = [Docstring(f"m.g{i}", "m", "m", "Say the same as just one other.") for i in range(2)]
    (row,) = demo.make_rows([*often, *twice], {})
    assert row.labels == ["m.g0", "m", "m.g1"]
    assert row.groups == ["m.g0", "m.g1"]
