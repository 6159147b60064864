"""Presets, learning rates by encoder, and settings that are refused."""

import pytest

from tagwood import PrototypeModel, TextEncoder
from tagwood.errors import InputError
from tagwood.neural.prime.settings import PRESETS, Prototype, PrototypeTraining
from tagwood.neural.training import Training


def test_presets_differ_as_they_say():
    assert PRESETS["prime"].batches.positives == 2
    assert PRESETS["prime-lite"].batches.positives == 1
    assert (PRESETS["ngame"].prototype.centroids, PRESETS["ngame"].prototype.free_vectors) == ("none", 0)
    assert PRESETS["dual-encoder"].prototype == PRESETS["ngame"].prototype
    assert not PRESETS["dual-encoder"].batches.clustered
    assert PRESETS["ngame"].batches.clustered
    assert PrototypeModel(learning_rate=0.5).resolved_settings().training.learning_rate == 0.5
    assert PrototypeModel(centroids="momentum").resolved_settings().prototype.centroids == "momentum"


def test_a_rate_that_is_not_given_is_that_of_the_encoder():
    model = PrototypeModel(training=PrototypeTraining(patience=2))
    assert model.resolved_settings().training.learning_rate == 0
    rates = [model.resolved_settings(TextEncoder(kind)).training.learning_rate for kind in ("bag", "minilm")]
    assert rates == [3e-3, 2e-4]
    own = PrototypeModel(training=Training(learning_rate=0.1))
    assert own.resolved_settings(TextEncoder("bag")).training.learning_rate == 0.1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"centroids": "momentun"}, "Did you mean 'momentum'"),
        ({"free_vectors": -1}, "free_vectors must be a whole number of at least 0"),
    ],
)
def test_misuse_is_named(change, words):
    with pytest.raises(InputError, match=words):
        Prototype(**change).check()
