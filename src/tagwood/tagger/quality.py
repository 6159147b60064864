"""The quality dial: which models answer together for given data, and whether the result is within a budget.

In: a quality, the base model and its encoder, the training data. Out: an unfitted model.

Decisions: trees differ most, and so help each other most, if they see different features: the members of ``"best"`` use
words and word pairs, single words, and plain counts, each with trees of its own seeds. Which of them earn their place
is decided on held-out rows (see `tagwood.models.ensemble.trial`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from time import process_time
from typing import Any, NamedTuple, Protocol

import numpy as np

from tagwood._check import show_amount, show_time
from tagwood.data.dataset import Dataset
from tagwood.data.fields import split_fields
from tagwood.errors import InputError
from tagwood.features.base import Encoder, takes_texts
from tagwood.features.tfidf import TfidfEncoder
from tagwood.metrics import compare
from tagwood.models.base import LabelModel
from tagwood.models.centroids import Centroids
from tagwood.models.disentangled import Disentangled
from tagwood.models.ensemble import Budget, Ensemble
from tagwood.models.ensemble.budget import state_bytes
from tagwood.models.ensemble.members import Member
from tagwood.models.linear_tree import LinearTree
from tagwood.models.name_matcher import NameMatcher
from tagwood.models.neighbours import Neighbours
from tagwood.ranking import Ranking
from tagwood.storage import State
from tagwood.tagger.fitting import SetRules
from tagwood.tagger.learning import ONE_STANDARD_ERROR

QUALITIES = ("fast", "balanced", "best")
_FEWEST_ROWS = 500  # with labels; fewer do not suffice to learn how members are fused
_BEST_TREES = 3
_FUSION_TREES, _BEST_FUSION_TREES = 100, 200
_PRIME_EPOCHS = 0  # untrained prototypes rank held-out rows as well, in a third of the time
_FIELD_WEIGHTS = (2, 3)
_FIELD_GAIN = 0.002
_FIELD_ROWS = 6000  # with several fields, on which their weights are chosen
_MOST_TITLED = 0.5  # share of the texts that must have a title
_TIMED_TEXTS = 30
_KEPT_CHARACTERS = 400  # of a training text that is stored as an example


class Choice(NamedTuple):
    """The model that was chosen, and why it is simpler than the quality asks for; "" where it is not."""

    model: LabelModel
    reason: str = ""


def choose_model(quality: str, base: LabelModel, encoder: Encoder, data: Dataset, sets: SetRules, seed: int) -> Choice:
    """Return the unfitted model of a quality for given data."""
    if quality == "fast":
        return Choice(base)
    if data.groups is not None:
        return Choice(base, "labels are known for groups only")
    n_rows = int((np.diff(data.labels.indptr) > 0).sum())
    if n_rows < _FEWEST_ROWS:
        return Choice(base, f"{n_rows:,} rows with labels are fewer than {_FEWEST_ROWS:,}")
    return Choice(_ensemble(quality == "best", base, encoder, data, sets, seed))


def _ensemble(best: bool, base: LabelModel, encoder: Encoder, data: Dataset, sets: SetRules, seed: int) -> Ensemble:
    """Return the unfitted ensemble of balanced, or of best: cheap members first, because a budget may end."""
    threads = getattr(base, "threads", None)
    trees = base if best and isinstance(base, LinearTree) else None
    members: list[Any] = [base if trees is None else _with_trees(trees, 0)]
    if isinstance(encoder, TfidfEncoder):  # others may have negative features
        members += [Neighbours(threads=threads), Centroids(threads=threads)]
    named = any(character.isalnum() for name in data.vocab.names or () for character in name)
    if named:
        members.append(NameMatcher(threads=threads))
    if trees is not None:
        members += _more_trees(trees, encoder)
    if best and named and has_prime(data.texts or ()):
        members.append(_prime(seed, threads))
    shared = None if all(takes_texts(member) for member in members) else encoder
    n_trees = _BEST_FUSION_TREES if best else _FUSION_TREES
    return Ensemble(members, encoder=shared, fusion_trees=n_trees, refit=sets.refit, seed=seed, threads=threads)


def _more_trees(base: LinearTree, encoder: Encoder) -> list[Any]:
    """Return the trees of ``"best"`` beside the first ones: single words, plain counts, copies of labels."""
    found: list[Any] = []
    if isinstance(encoder, TfidfEncoder):
        own = encoder.get_params(deep=False)
        if tuple(encoder.ngrams) != (1, 1):
            words = TfidfEncoder(**{**own, "ngrams": (1, 1)})
            found.append(Member("LinearTree, words", words, _with_trees(base, 1)))
        if encoder.sublinear_tf:
            counts = TfidfEncoder(**{**own, "sublinear_tf": False})
            found.append(Member("LinearTree, counts", counts, _with_trees(base, 2)))
    others = _with_trees(base, 3)
    found.append(Disentangled(others, copies="auto", seed=others.seed, threads=base.threads))
    return found


def _with_trees(base: LinearTree, number: int) -> LinearTree:
    """Return a model like `base` with several trees, of seeds that no other number has."""
    n_trees = max(base.n_trees, _BEST_TREES)
    own = base.get_params(deep=False)
    return LinearTree(**{**own, "n_trees": n_trees, "seed": base.seed + number * n_trees})


def has_prime(texts: Sequence[str]) -> bool:
    """Whether PRIME over MiniLM is a member of ``"best"``: it is installed and knows the words of the texts."""
    if find_spec("torch") is None or find_spec("tokenizers") is None:
        return False
    from tagwood.neural.encoders.text_encoder import suitable_encoder

    return suitable_encoder(texts) == "minilm"


def _prime(seed: int, threads: int | None) -> Any:
    """Return unfitted PRIME over MiniLM."""
    from tagwood.neural.encoders.modules import StateMemory
    from tagwood.neural.encoders.text_encoder import TextEncoder
    from tagwood.neural.prime.model import PrototypeModel

    encoder = TextEncoder("minilm", trained="head", seed=seed, threads=threads)
    encoder.memory = StateMemory()  # each text passes through the network once, in all rounds together
    return PrototypeModel(encoder=encoder, epochs=_PRIME_EPOCHS, seed=seed, threads=threads)


def with_field_weights(encoder: Encoder, data: Dataset, seed: int) -> Encoder:
    """Return an encoder that counts each field as often as is best for held-out rows, where it may be chosen.

    Fields are those of the data, or title and rest. The choice is made with single words and `Centroids`, which takes
    seconds; other models mostly agree. The longest field counts once; a larger weight of another one must gain at least
    `_FIELD_GAIN` of nDCG@5, and more than chance.
    """
    if not isinstance(encoder, TfidfEncoder) or encoder.field_weights is not None or data.groups is not None:
        return encoder
    texts, n_fields = data.texts or (), len(data.fields) or 2
    has_fields = np.array([split_fields(text, n_fields) is not None for text in texts], dtype=np.bool_)
    rows = np.flatnonzero(has_fields & (np.diff(data.labels.indptr) > 0))
    if n_fields < 2 or rows.size < _FEWEST_ROWS or (not data.fields and has_fields.mean() < _MOST_TITLED):
        return encoder
    rows = np.random.default_rng(seed).permutation(rows)[:_FIELD_ROWS]
    lengths = [[len(field) for field in split_fields(texts[row], n_fields) or ()] for row in rows.tolist()]
    longest = int(np.argmax(np.sum(lengths, axis=0)))
    trial = _WeightTrial(encoder, *data.rows(rows).split(0.2, seed=seed))
    weights = [1] * n_fields
    best = trial.rank(weights)
    for field in range(n_fields):
        for weight in _FIELD_WEIGHTS if field != longest else ():
            tried = [*weights[:field], weight, *weights[field + 1 :]]
            found = trial.rank(tried)
            gain = compare(trial.held.labels, best, found, metrics=["nDCG@5"], confidence=ONE_STANDARD_ERROR)["nDCG@5"]
            if gain.difference >= _FIELD_GAIN and gain.low > 0:
                weights, best = tried, found
    return TfidfEncoder(**{**encoder.get_params(deep=False), "field_weights": tuple(weights)})


class _WeightTrial(NamedTuple):
    """Rows to try weights of fields on."""

    encoder: TfidfEncoder
    train: Dataset
    held: Dataset

    def rank(self, weights: list[int]) -> Ranking:
        """Return the ranking of the held-out rows with given weights."""
        own = {**self.encoder.get_params(deep=False), "ngrams": (1, 1), "field_weights": weights}
        trial = TfidfEncoder(**own)
        model = Centroids(threads=trial.threads).fit(trial.fit_transform(self.train.texts or ()), self.train.labels)
        return model.rank(trial.transform(self.held.texts or ()), 5)


def budget_of_model(budget: Budget, data: Dataset, keep_texts: int) -> Budget:
    """Return what a budget leaves for the model: the label table and kept texts take their part of the size."""
    if budget.bytes is None:
        return budget
    texts = (data.texts or ())[:_TIMED_TEXTS]
    kept = min(keep_texts, data.n_rows) * np.mean([min(len(text), _KEPT_CHARACTERS) for text in texts] or [0])
    names = sum(len(name) + 8 for name in data.vocab.names or ())
    return replace(budget, size=max(1.0, budget.bytes - float(kept) - names))


class _Fitted(Protocol):
    def state(self) -> State: ...

    def tag_one(self, text: str) -> Any: ...


def check_costs(tagger: _Fitted, budget: Budget, texts: Sequence[str]) -> None:
    """Raise `InputError` if a fitted Tagger is larger or slower than a budget allows.

    Members that are over the budget were left out before.
    """
    hint = "Allow more, or choose settings of a smaller model: tagwood plan DATA finds them."
    if budget.bytes is not None and (size := state_bytes(tagger.state())) > budget.bytes:
        expected = f"the model must have at most {show_amount(budget.bytes)}"
        raise InputError(expected, given=f"{show_amount(size)} with the members that remain", hint=hint)
    if budget.latency_seconds is not None:
        times = []
        for text in texts[:_TIMED_TEXTS]:
            start = process_time()
            tagger.tag_one(text)
            times.append(process_time() - start)
        if (latency := float(np.median(times))) > budget.latency_seconds:
            expected = f"a text must be tagged in at most {show_time(budget.latency_seconds)}"
            raise InputError(expected, given=f"{show_time(latency)} with the members that remain", hint=hint)
