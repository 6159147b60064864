"""A small library: texts about trees, water and stars, with an answer that cannot be missed."""

import numpy as np

WORDS = {
    "trees": ["oak", "ash", "elm", "leaf", "bark", "forest"],
    "water": ["sea", "salt", "wave", "river", "rain", "tide"],
    "stars": ["sun", "moon", "orbit", "comet", "night", "telescope"],
    "stones": ["granite", "slate", "quarry", "chalk", "marble", "flint"],
}


def make_library(n_rows=1000, seed=0):
    """Texts of six words, each of one or two topics, and the names of the topics."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n_rows):
        topics = random.choice(list(WORDS), size=random.integers(1, 3), replace=False)
        words = [random.choice(WORDS[topic]) for topic in topics for _ in range(6 // len(topics))]
        texts.append(" ".join(random.permutation(words)))
        labels.append([str(topic) for topic in topics])
    return texts, labels
