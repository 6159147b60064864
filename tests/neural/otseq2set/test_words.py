"""Initial embeddings: word vector files, label embeddings from words, misuse."""

import numpy as np
import pytest

from tagwood.errors import InputError
from tagwood.features.words import WordSequences
from tagwood.neural.otseq2set.words import label_table, read_vectors, word_table

VECTORS = {"fir": [1.0, 0.0], "oak": [0.0, 1.0], "forest": [3.0, 3.0], ",": [9.0, 9.0]}
TEXT = "\n".join(f"{word} {' '.join(map(str, vector))}" for word, vector in VECTORS.items())


@pytest.fixture(params=["glove", "word2vec", "npy", "npy, own name"])
def vectors(request, tmp_path):
    if request.param.startswith("npy"):
        np.save(tmp_path / "table.npy", np.array(list(VECTORS.values()), dtype=np.float16))
        name = "table.txt" if "own" in request.param else "words.txt"
        (tmp_path / name).write_text("\n".join(VECTORS) + "\n")
        return str(tmp_path / "table.npy")
    path = tmp_path / "vectors.txt"
    path.write_text(TEXT if request.param == "glove" else f"4 2\n{TEXT}\n")
    return str(path)


def test_files_are_read_in_every_form(vectors):
    table, known = read_vectors(vectors, {"oak": 2, "elm": 1, "fir": 0})
    assert table.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert known.tolist() == [True, False, True]


def test_words_start_from_the_file_and_the_rest_at_random(vectors):
    words = WordSequences.learn(["fir oak elm"])
    table, spread = word_table(words, 100, vectors, np.random.default_rng(0))
    assert table.shape == (5, 2)
    places = {word: place for place, word in enumerate(words.words(), 2)}
    assert table[places["fir"]].tolist() == [1, 0]
    assert table[places["elm"]].any()
    assert not table[0].any()
    assert spread == pytest.approx(0.5)


def test_labels_start_from_the_mean_of_their_words(vectors):
    words = WordSequences.learn(["fir oak elm"])
    table, _ = word_table(words, 100, vectors, np.random.default_rng(0))
    random = np.random.default_rng(1)
    found = label_table(["Fir, oak", "forest", "unheard of", ""], words, table, vectors, random)
    assert found[0].tolist() == [0.5, 0.5]
    assert found[1].tolist() == [3, 3]  # not in the texts, but in the file
    assert found[2:].all()


def test_labels_without_any_words_start_at_random():
    words = WordSequences.learn(["fir oak"])
    table, _ = word_table(words, 7, None, np.random.default_rng(0))
    assert label_table(["", " "], words, table, None, np.random.default_rng(1)).shape == (2, 7)
    assert label_table(["?", "-"], words, table, None, np.random.default_rng(1)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("no.txt", None, "must be a file of word vectors"),
        ("a.txt", "fir 1 two\n", "line 1 of .* must be a word and numbers"),
        ("a.txt", "fir 1 2\noak 1\n", "line 2 of .* must have 2 numbers; got 1"),
        ("a.txt", "elm 1 2\n", "must contain vectors of words in the texts"),
        ("a.txt", "fir 1 nan\n", "must contain finite numbers"),
        ("a.npy", "fir", "must be in a file next to it"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_vectors(tmp_path / name, {"fir": 0, "oak": 1})


def test_tables_that_do_not_fit_their_words_are_refused(tmp_path):
    (tmp_path / "words.txt").write_text("fir\noak\n")
    np.save(tmp_path / "a.npy", np.zeros((3, 2), dtype=np.float32))
    with pytest.raises(InputError, match="one row for each of the 2 words in"):
        read_vectors(tmp_path / "a.npy", {"fir": 0})
    (tmp_path / "b.npy").write_bytes(b"no table")
    with pytest.raises(InputError, match="must be a NumPy table"):
        read_vectors(tmp_path / "b.npy", {"fir": 0})
