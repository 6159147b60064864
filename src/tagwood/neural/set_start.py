"""The network a `SetGenerator` starts with. In: settings, words, label texts. Out: an untrained `SetNetwork`."""

from __future__ import annotations

import numpy as np
import torch

from tagwood.features.word_sequences import WordSequences
from tagwood.neural.set_network import SetNetwork
from tagwood.neural.set_params import SetParams
from tagwood.neural.set_words import label_table, word_table


def start_network(
    params: SetParams, words: WordSequences, n_labels: int, label_texts: list[str] | None
) -> SetNetwork:
    """Return a network whose vectors of words and labels are set; same seed, same weights.

    Parameters
    ----------
    params
        Settings of the generator.
    words, n_labels
        What it reads and what it says.
    label_texts
        One text per label, or None: label embeddings then start at random.
    """
    random = np.random.default_rng(params.seed)
    table, spread = word_table(words, params.dimension, params.word_vectors, random)
    if label_texts is None:
        vectors = random.normal(scale=spread, size=(n_labels, table.shape[1])).astype(np.float32)
    else:
        vectors = label_table(label_texts, words, table, params.word_vectors, random)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.seed)
        network = SetNetwork(params._sizes(words.n_words, n_labels, table.shape[1]))
    with torch.no_grad():
        network.words.weight.copy_(torch.from_numpy(table))
        network.labels.weight[:n_labels].copy_(torch.from_numpy(vectors))
        network.labels.weight[n_labels:].mul_(spread)
    return network
