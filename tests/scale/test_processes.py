"""Data-parallel training of neural models on a cluster: models that learn, a lost process, and clear refusals."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("ray", reason="Ray is not installed: pip install 'tagwood[scale]'")

from library import make_library
from process_tasks import LosesProcess
from prototype_problem import word_pairs

from tagwood import Tagger
from tagwood.errors import InputError, TagwoodError
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.otseq2set.model import SetGenerator
from tagwood.neural.prime.model import PrototypeModel
from tagwood.scale import RayRunner

pytestmark = pytest.mark.filterwarnings("ignore")
SETS = {
    "network__hidden": 32,
    "network__layers": 1,
    "network__dimension": 16,
    "training__epochs": 5,
    "training__batch_size": 16,
    "training__learning_rate": 0.01,
}


def prime(**options):
    encoder = TextEncoder("bag", dimension=32, vocabulary=400, threads=1)
    return PrototypeModel(encoder=encoder, epochs=8, batch_size=32, learning_rate=0.02, threads=3, **options)


def test_prime_learns_in_two_processes(connected):
    texts, labels, names = word_pairs(4)
    model = prime(centroids="leave-one-out")
    fitted = RayRunner().fit_together(model, texts, labels, {"label_texts": names})
    assert fitted.threads == 3
    assert not hasattr(model, "n_labels_")
    found = fitted.rank(texts, 1).labels
    assert np.mean(found == np.concatenate(labels)) > 0.9


def test_a_tagger_with_a_set_generator_learns_in_two_processes(connected):
    texts, labels = make_library(240)
    tagger = Tagger(model=SetGenerator(threads=1).set_params(**SETS)).fit(texts, labels, runner=RayRunner())
    assert np.mean([tags.names[0] in own for tags, own in zip(tagger.tag(texts, 1), labels, strict=True)]) > 0.8


def test_an_error_of_the_model_is_one_sentence(connected):
    texts, labels, names = word_pairs(2)
    with pytest.raises(InputError, match="one text for each"):
        RayRunner().fit_together(prime(), texts, labels, {"label_texts": names[:3]})


def test_a_lost_process_starts_all_again(connected, tmp_path):
    fitted = RayRunner().fit_together(LosesProcess(str(tmp_path), 1), ["a"], [[0]], {})
    assert fitted.total_ == 2.0  # one of each process
    with pytest.raises(TagwoodError, match="a process of the training was lost 3 times"):
        RayRunner().fit_together(LosesProcess(str(tmp_path / "other"), 9), ["a"], [[0]], {})
