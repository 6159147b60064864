"""Which encoder is taken where none was named: MiniLM for texts whose words it knows, a bag for all others."""

from __future__ import annotations

import pytest
from prototype_problem import word_pairs

from tagwood import PrototypeModel
from tagwood.errors import MissingExtraError
from tagwood.neural.encoders import text_encoder as text_encoder_choice
from tagwood.neural.encoders.text_encoder import suitable_encoder

ENGLISH = ["How do I keep bread from going stale?", "A reader on the history of the early church", ""]
OTHERS = [
    "Die Förderung erneuerbarer Energien in ländlichen Gemeinden",
    "Le gouvernement propose une loi pour soutenir les énergies renouvelables",
    "Hallitus päätti uudesta laista, jolla tuetaan uusiutuvaa energiaa",
    "政府周三宣布了一项新法律，从明年开始支持可再生能源",
    "Правительство объявило о новом законе",
]


def test_english_texts_are_for_minilm_and_others_for_the_bag():
    assert suitable_encoder(ENGLISH) == "minilm"
    assert [suitable_encoder([text]) for text in OTHERS] == ["bag"] * len(OTHERS)


def test_a_large_set_is_judged_by_texts_from_all_over_it():
    assert suitable_encoder([ENGLISH[0]] * 900 + [OTHERS[2]] * 100) == "minilm"
    assert suitable_encoder([ENGLISH[0]] * 300 + [OTHERS[2]] * 700) == "bag"


@pytest.mark.parametrize("texts", [[], [""], ["12 + 34"]])
def test_texts_without_words_are_for_the_bag(texts):
    assert suitable_encoder(texts) == "bag"


def test_without_its_package_minilm_is_not_taken(monkeypatch):
    def missing():
        raise MissingExtraError("the encoder 'minilm'", extra="neural")

    monkeypatch.setattr(text_encoder_choice, "minilm_folder", missing)
    assert suitable_encoder(ENGLISH) == "bag"


def test_a_model_takes_the_suitable_encoder_and_its_rate():
    texts, labels, _ = word_pairs(4)
    model = PrototypeModel(epochs=1, centroids="momentum", threads=1)
    assert model.encoder == "auto"
    foreign = [f"{text} {OTHERS[2]}" for text in texts]
    model.fit(foreign, labels, label_texts=[OTHERS[0]] * 45)
    assert model.encoder_.encoder == "bag"
    assert model.settings_.training.learning_rate == 3e-3
    english = [f"{text} and the history of bread" for text in texts[:60]]
    model.fit(english, labels[:60], label_texts=["the history of bread"] * (1 + max(map(max, labels[:60]))))
    assert (model.encoder_.encoder, model.encoder_.trained) == ("minilm", "head")
    assert model.settings_.training.learning_rate == 5e-4
