"""Features side by side."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from tagwood.errors import InputError
from tagwood.features.concat import ConcatEncoder, concat_features
from tagwood.features.tfidf import TfidfEncoder
from tagwood.storage import load, save


def test_blocks_are_scaled_to_their_weights():
    sparse_block = sparse.csr_array([[3.0, 4.0], [0.0, 0.0]])
    X = concat_features([sparse_block, np.array([[10.0], [7.0]])], weights=[1, 2]).toarray()
    np.testing.assert_allclose(X, [[0.6 / 5**0.5, 0.8 / 5**0.5, 2 / 5**0.5], [0, 0, 1]], rtol=1e-6)


def test_inputs_are_not_changed():
    block = sparse.csr_array(np.array([[3.0, 4.0]], dtype=np.float32))
    concat_features([block, block], weights=[1, 5])
    assert block.toarray().tolist() == [[3.0, 4.0]]


def test_an_encoder_of_encoders_survives_a_model_folder(tmp_path):
    texts = ["fir and oak", "oak trees", "fir trees"]
    encoder = ConcatEncoder([TfidfEncoder(min_df=1), TfidfEncoder(analyzer="char", min_df=1)], weights=[2, 1])
    encoder.fit(iter(texts))
    save(encoder, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.n_features == encoder.n_features
    np.testing.assert_array_equal(again.transform(texts).toarray(), encoder.transform(texts).toarray())


@pytest.mark.parametrize("blocks, weights, message", [
    ([], None, "at least one"),
    ([[[1.0]], [[1.0], [2.0]]], None, "block 1 must have the 1 rows of block 0; got 2"),
    ([[[1.0]], [[1.0]]], [1], "one number for each of the 2 blocks"),
    ([[[1.0]]], [0], r"weights\[0\] must be a number greater than 0"),
])  # fmt: skip
def test_misuse_is_named(blocks, weights, message):
    with pytest.raises(InputError, match=message):
        concat_features(blocks, weights)


def test_encoders_are_steps_of_a_pipeline():
    texts, labels = ["fir and oak", "oak", "fir", "fir tree"] * 5, [0, 1, 0, 0] * 5
    for encoder in (TfidfEncoder(min_df=1), ConcatEncoder([TfidfEncoder(min_df=1)])):
        model = make_pipeline(encoder, LogisticRegression()).fit(texts, labels)
        assert model.score(texts, labels) == 1.0
