"""A small problem for prototype models, and what processes of neural/prime/test_training.py run.

A label is a pair of words, its name; a text has both words and some noise. So names of new labels say what they mean.
"""

from __future__ import annotations

import itertools

import numpy as np
from torch import nn

from tagwood._sparse import check_labels
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.prime import network
from tagwood.neural.prime.settings import Batching, Prototype, PrototypeLoss, PrototypeSettings
from tagwood.neural.prime.training import PrototypeData, new_module, train_module
from tagwood.neural.training import Training

WORDS = ["oak", "ash", "elm", "yew", "fir", "sea", "tin", "fog", "owl", "ram"]
NOISE = ["of", "the", "and", "old", "new", "big"]


def word_pairs(n_texts=6, seed=0):
    """Return texts, label ids of each, and label names; the first half of each name's texts comes first."""
    random = np.random.default_rng(seed)
    names = [" ".join(pair) for pair in itertools.combinations(WORDS, 2)]
    texts, labels = [], []
    for _ in range(n_texts):
        for label, name in enumerate(names):
            words = [*name.split(), *random.choice(NOISE, size=3)]
            texts.append(" ".join(random.permutation(words)))
            labels.append([label])
    return texts, labels, names


SETTINGS = PrototypeSettings(
    Prototype(centroids="leave-one-out", free_vectors=8),
    PrototypeLoss(),
    Batching(),
    Training(epochs=2, batch_size=32, learning_rate=0.01, checkpoint_minutes=0.0),
)


def trained_module(settings=SETTINGS, *, folder=None, stop_at=None, dropout=False, encoder="bag"):
    """Return a trained module; with `stop_at`, stop at that step and go on from the checkpoint."""
    texts, labels, names = word_pairs(3)
    Y = check_labels([[*row, (row[0] + 7) % len(names)] for row in labels])

    def begin():
        made = TextEncoder(encoder, dimension=32, layers=1, vocabulary=400, threads=1).fit([*texts, *names])
        data = PrototypeData(made.tokens(texts), made.tokens(names), Y, texts)
        module = new_module(made, data, settings, seed=1, threads=1)
        for part in module.modules():
            if isinstance(part, nn.Dropout) and not dropout:
                part.p = 0.0
        return module, data

    steps = -(-len(texts) // settings.training.batch_size) * settings.training.epochs

    def stop(line, share):
        if round(share * steps) == stop_at:
            raise KeyboardInterrupt

    module, data = begin()
    options = {"seed": 1, "threads": 1, "folder": folder}
    if stop_at is not None:
        try:
            train_module(module, data, settings, progress=stop, **options)
        except KeyboardInterrupt:
            module, data = begin()
    train_module(module, data, settings, **options)
    return module


def numbers_of(module):
    """Return all weights and buffers of a module as one vector."""
    return np.concatenate([value.detach().numpy().ravel() for value in module.state_dict().values()])


def trained_numbers(settings):
    """Return the numbers of a module trained without hidden labels, whose choice is random: what a process runs."""
    network.HIDE = 0.0
    return numbers_of(trained_module(settings))
