"""`PrototypeModel`: a text encoder and label prototypes in one space (PRIME), and the plain dual encoder.

In: texts, label sets and the text of each label. Out: a ranking by cosine similarity; new labels from their text alone.

Decisions
---------
* After training only the encoder, the prototypes of all labels and the prototype network are kept: centroids and free
  vectors are inside the prototypes. New labels pass through the network with their text as the only source.
* Scores are cosine similarities. `predict` cuts them where the training rows have as many labels as they should; a
  Tagger calibrates them instead.
* Same seed and number of torch threads, same model on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from torch import nn

from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood.errors import InputError
from tagwood.features.base import check_texts
from tagwood.metrics import evaluate
from tagwood.models.base import FittedModel, check_text_rows
from tagwood.models.linear_tree.model import LinearTree, check_pairs
from tagwood.models.linear_tree.training import Progress
from tagwood.neural.encoders.explanation import explain_words
from tagwood.neural.encoders.head import HeadModule, StateMemory
from tagwood.neural.encoders.text_encoder import FROM_SCRATCH, TextEncoder, suitable_encoder
from tagwood.neural.prime.classifiers import PrototypeClassifiers, train_classifiers
from tagwood.neural.prime.label_index import LabelIndex
from tagwood.neural.prime.loss import PrototypeLoss
from tagwood.neural.prime.network import CENTROIDS, Prototype, PrototypeModule, PrototypeNetwork
from tagwood.neural.prime.settings import Batching, Settings, settle
from tagwood.neural.prime.training import (
    CANDIDATES,
    LOW_MARGIN,
    PrototypeData,
    choose_centroids,
    label_prototypes,
    new_module,
    new_prototypes,
    train_module,
)
from tagwood.neural.torch_state import torch_threads
from tagwood.neural.training import Training, in_words
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

# SECTION neural.prototype_fitting
# The first steps of `PrototypeModel.fit`: the encoder that training begins with, and which prototypes are made.


_SETTINGS = (
    "prototype",
    "loss",
    "batches",
    "training",
    "centroids",
    "epochs",
    "batch_size",
    "learning_rate",
)


def checked_settings(model: PrototypeModel, encoder: TextEncoder | None = None) -> Settings:
    """Return what a model will do with an encoder; `InputError` for a parameter that does not fit."""
    check_int(model.seed, "seed", low=0, high=(1 << 63) - 1)
    check_threads(model.threads)
    encoder = new_encoder(model) if encoder is None else encoder
    encoder._check_params()
    LabelIndex(np.zeros((1, 1)), model.index)
    given = {name: getattr(model, name) for name in _SETTINGS}
    return settle(model.preset, str(encoder.encoder), trained=encoder.trained, **given)


def with_centroids(
    model: PrototypeModel,
    encoder: TextEncoder,
    settings: Settings,
    data: tuple[list[str], sparse.csr_array, list[str]],
    progress: Progress | None,
) -> tuple[Settings, dict[str, float]]:
    """Return settings that name the kind of centroids, and what each kind reached if it was chosen by trials.

    `data` are texts, label sets and label texts. All trials begin with `encoder`; states of one that is frozen are
    remembered, for the other trials and for the training itself.
    """
    if settings.prototype.centroids != "auto":
        return settings, {}
    if encoder.memory is None and isinstance(encoder.module, HeadModule):
        encoder.memory = StateMemory()
    training = replace(settings.training, patience=0)
    params = {**model.get_params(deep=False), "encoder": encoder, "training": training, "centroids": None}
    own_margin = model.loss is not None or settings.loss.margin != "fixed"

    def fit(kind: str, texts: list[str], Y: sparse.csr_array, names: list[str]) -> PrototypeModel:
        tried = _of_kind(settings, kind)
        changed = {**params, "prototype": tried.prototype, "loss": tried.loss}
        return type(model)(**changed).fit(texts, Y, label_texts=names)

    candidates = [kind for kind in CANDIDATES if kind != LOW_MARGIN or not own_margin]
    kind, measures = choose_centroids(*data, fit, candidates=candidates, seed=model.seed, progress=progress)
    return _of_kind(settings, kind), measures


def _of_kind(settings: Settings, kind: str) -> Settings:
    """Return settings with a kind of centroids; without any, labels are their texts alone, as in a dual encoder."""
    prototype, loss = settings.prototype, settings.loss
    if kind == LOW_MARGIN:
        kind, loss = "none", replace(loss, high=loss.low)
    if kind == "none" and loss.texts > 0:
        loss = replace(loss, prototypes=0.0, queries=0.0, regulariser=0.0)
    vectors = 0 if kind == "none" else prototype.free_vectors
    return settings._replace(prototype=replace(prototype, centroids=kind, free_vectors=vectors), loss=loss)


def new_encoder(model: PrototypeModel, texts: Sequence[str] = ()) -> TextEncoder:
    """Return the unfitted encoder of a model, for some texts; of weights of others, only a head is trained."""
    if isinstance(model.encoder, TextEncoder):
        return TextEncoder(**model.encoder.get_params(deep=False))
    name = suitable_encoder(texts) if model.encoder == "auto" else model.encoder
    trained = "all" if name in FROM_SCRATCH else "head"
    return TextEncoder(name, trained=trained, seed=model.seed, threads=model.threads)


def first_encoder(model: PrototypeModel, texts: list[str]) -> TextEncoder:
    """Return the encoder that training begins with: fitted on `texts`, or a copy of one that was given fitted."""
    if isinstance(model.encoder, TextEncoder) and hasattr(model.encoder, "tokenizer_"):
        copy = TextEncoder.from_state(model.encoder.state())
        copy.memory = model.encoder.memory
        return copy
    return new_encoder(model, texts).fit(texts)


def of_module(
    model: PrototypeModel,
    evaluate: Callable[[Any], float],
    encoder: TextEncoder,
    data: PrototypeData,
) -> Callable[[nn.Module], float]:
    """Return a measure of models as one of modules, for the training loop: `evaluate` sees a whole model."""

    def measure(module: nn.Module) -> float:
        half = type(model)(**model.get_params(deep=False))
        half._learn(module, encoder, data)  # type: ignore[arg-type]
        return evaluate(half)

    return measure


# SECTION neural.prototype_state
# The stored form of a `PrototypeModel`: encoder, prototypes, prototype network, as numbers and settings.


_PARTS: dict[str, type[Any]] = {
    "prototype": Prototype,
    "loss": PrototypeLoss,
    "batches": Batching,
    "training": Training,
}


def model_state(model: PrototypeModel) -> State:
    """Return everything needed to rebuild a fitted model."""
    init = model.get_params(deep=False)
    for name in _PARTS:
        init[name] = None if init[name] is None else asdict(init[name])
    if isinstance(model.encoder, TextEncoder):
        init["encoder"] = {**model.encoder.get_params(deep=False), "encoder": str(model.encoder.encoder)}
    network = {} if model.network_ is None else model.network_.state_dict()
    return State(
        "PrototypeModel",
        params={
            "init": init,
            "centroids": model.centroids_,
            "trials": model.trials_,
            "threshold": model.threshold_,
            "feed_forward": 0 if model.network_ is None else model.network_.widen.out_features,
        },
        arrays={
            name.replace(".", "_"): np.ascontiguousarray(value.cpu().numpy())
            for name, value in network.items()
        },
        parts={"encoder": model.encoder_.state(), "index": model.index_.state()},
    )


def learned_from_state(state: State) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return constructor arguments and learned attributes."""
    init = dict(state.param("init", dict))
    for name, kind in _PARTS.items():
        init[name] = None if init.get(name) is None else kind(**init[name])
    if isinstance(init.get("encoder"), dict):
        init["encoder"] = TextEncoder(**init["encoder"])
    encoder, index = TextEncoder.from_state(state.part("encoder")), LabelIndex.from_state(state.part("index"))
    if index.vectors.shape[1] != encoder.n_features:
        raise InputError(
            f"stored prototypes must have the {encoder.n_features} numbers of the encoder",
            given=str(index.vectors.shape[1]),
        )
    learned = {
        "encoder_": encoder,
        "index_": index,
        "network_": _network(state, encoder.n_features),
        "centroids_": check_choice(state.param("centroids", str), "centroids", CENTROIDS),
        "trials_": dict(state.param("trials", dict)),
        "threshold_": check_float(state.param("threshold", float), "threshold"),
        "n_labels_": len(index),
        "settings_": None,
        "history_": None,
    }
    return init, learned


def _network(state: State, dimension: int) -> PrototypeNetwork | None:
    width = state.param("feed_forward", int)
    if width == 0:
        return None
    network = PrototypeNetwork(dimension, width)
    network.load_state_dict(
        {
            name: torch.from_numpy(
                np.array(state.array(name.replace(".", "_"), np.float32, tuple(value.shape)))
            )
            for name, value in network.state_dict().items()
        }
    )
    return network.eval()


# SECTION neural.prototype_inputs
# What `PrototypeModel` is given, checked; rows held out for early stopping; the threshold of its label sets.


_HELD_OUT = 0.1  # of the rows
_MOST_HELD_OUT = 2000


def check_label_texts(label_texts: Iterable[str] | None, n_labels: int) -> list[str]:
    """Return one text per label, or say what is missing."""
    if label_texts is None:
        raise InputError(
            f"a PrototypeModel needs label_texts: one text for each of the {n_labels:,} labels",
            given="none",
            hint="Pass the labels' names: fit(X, y, label_texts=names).",
        )
    listed = list(check_texts(label_texts))
    if len(listed) != n_labels:
        raise InputError(
            f"label_texts must hold one text for each of the {n_labels:,} labels", given=f"{len(listed):,}"
        )
    return listed


def hold_out(
    texts: list[str], Y: sparse.csr_array, seed: int
) -> tuple[list[str], sparse.csr_array, Callable[[Any], float]]:
    """Return the rows to train on, and P@1 on the others as a measure of a model."""
    order = np.random.default_rng([seed, 10]).permutation(len(texts))
    cut = max(1, min(_MOST_HELD_OUT, round(_HELD_OUT * len(texts))))
    held, rest = np.sort(order[:cut]), np.sort(order[cut:])
    known = Y[rest]
    if known.nnz == 0:
        raise InputError(
            "early stopping needs rows with labels to train on, and others to measure on",
            given=f"{len(texts):,} rows",
            hint="Set patience=0.",
        )
    held_texts, true = [texts[row] for row in held], Y[held]

    def measure(model: Any) -> float:
        return float(evaluate(true, model.rank(held_texts, k=1), metrics=["P@1"])["P@1"])

    return [texts[row] for row in rest], known, measure


def label_ids(labels: ArrayLike | None) -> list[int] | None:
    """Return label ids as a list; None stays None."""
    return None if labels is None else [int(label) for label in np.atleast_1d(np.asarray(labels))]


def usual_threshold(ranking: Ranking, n_true: int) -> float:
    """Return the score above which rows together have as many labels as they should.

    Examples
    --------
    >>> usual_threshold(Ranking.from_lists([[(0, 0.75), (1, 0.25)], [(1, 0.5)]], n_labels=2), 2)
    0.5
    """
    if ranking.scores.size == 0:
        return 0.0
    return float(np.sort(ranking.scores)[::-1][max(0, min(n_true, ranking.scores.size) - 1)])


_MOST = 50  # labels that `predict` returns
NEW_LABEL_WEIGHT = 0.85


@storable("PrototypeModel")
class PrototypeModel(FittedModel):
    """Rank labels by the similarity of a text and the labels' prototypes.

    1. An encoder embeds texts and label texts. 2. A prototype joins a label's text, the centroid of its training texts
    and a vector that it shares with like labels. 3. Triplet losses pull texts to the prototypes of their labels, away
    from those of like texts. 4. The nearest prototypes are the answer.

    Parameters
    ----------
    preset
        ``"prime"``; ``"prime-lite"``: one positive per text, half the batch; ``"dual-encoder"``: label texts alone;
        ``"ngame"``: the same with batches of like texts.
    encoder
        ``"minilm"`` or the path of a folder with weights, behind which a head is trained; ``"bag"`` (fast) or
        ``"small"``; ``"auto"``: minilm if it is installed and knows the words of the texts (English), otherwise bag;
        a `TextEncoder` with its own settings: training begins with the weights of one that is fitted.
    centroids
        Instead of the preset's; see `Prototype`.
    epochs, batch_size, learning_rate
        Instead of those of `training` or the preset. Default rates: 0.003 for encoders that begin at random,
        0.0005 for heads, 0.0002 where all weights of others are trained.
    prototype, loss, batches, training
        Whole parts of the preset to replace.
    index
        Search: ``"auto"``, ``"flat"``, ``"hnsw"`` or ``"ivf"``; see `LabelIndex`.
    seed, threads
        Same seed and number of threads (default all cores), same model on the CPU.

    Attributes
    ----------
    encoder_ : TextEncoder, trained
    index_ : LabelIndex over the prototypes
    centroids_ : the kind of centroids that was used, and trials_ : what each kind reached in trials
    settings_, history_ : Settings and History of the training; None in a loaded model
    n_labels_ : int

    Examples
    --------
    >>> texts = ["oak leaves", "leaves of ash", "an old oak", "salt water", "the sea", "salt of the sea"] * 4
    >>> model = PrototypeModel(encoder="bag", epochs=5, batch_size=8, threads=1)
    >>> model = model.fit(texts, [[0], [0], [0], [1], [1], [1]] * 4, label_texts=["oak, ash", "sea"])
    >>> model.rank(["leaves", "water"], k=1).labels.tolist()
    [0, 1]
    >>> model.add_labels(["stone, rock"]).tolist(), model.n_labels_
    ([2], 3)
    """

    takes = "texts"
    encoder_: TextEncoder
    network_: PrototypeNetwork | None
    index_: LabelIndex
    centroids_: str
    trials_: dict[str, float]
    threshold_: float
    settings_: Settings | None

    def __init__(
        self,
        *,
        preset: str = "prime",
        encoder: str | TextEncoder = "auto",
        centroids: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        prototype: Prototype | None = None,
        loss: PrototypeLoss | None = None,
        batches: Batching | None = None,
        training: Training | None = None,
        index: str = "auto",
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.preset = preset
        self.encoder = encoder
        self.centroids = centroids
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.prototype = prototype
        self.loss = loss
        self.batches = batches
        self.training = training
        self.index = index
        self.seed = seed
        self.threads = threads

    def fit(
        self,
        X: Iterable[str],
        y: Any,
        *,
        label_texts: Iterable[str] | None = None,
        evaluate: Callable[[Self], float] | None = None,
        folder: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from texts, their labels and the labels' texts.

        Parameters
        ----------
        X
            One text per row.
        y
            (n_rows, n_labels) label sets: a sparse or dense 0/1 matrix, or the label ids of each row.
        label_texts
            One text per label, such as its name.
        evaluate
            Held-out measure of this model, higher is better, asked after each epoch; the best weights are kept. Where
            ``training.patience`` is set and this is not, rows are held out for it.
        folder
            Where checkpoints of a long training are kept; the same call goes on from them.
        progress
            Called with a line about the training and the share done.
        """
        rows, labels = check_text_rows(X, y)
        names = check_label_texts(label_texts, labels.shape[1])
        self._check_params()
        with torch_threads(self.threads):
            encoder = first_encoder(self, [*rows, *names])
            settings, given = checked_settings(self, encoder), encoder.memory
            settings, self.trials_ = with_centroids(self, encoder, settings, (rows, labels, names), progress)
            if settings.training.patience and evaluate is None:
                rows, labels, evaluate = hold_out(rows, labels, self.seed)
            data = PrototypeData(encoder.inputs(rows), encoder.inputs(names), labels, rows)
            encoder.memory = given
            threads = check_threads(self.threads)
            module = new_module(encoder, data, settings, self.seed, threads)
            history = train_module(
                module,
                data,
                settings,
                seed=self.seed,
                threads=threads,
                evaluate=None if evaluate is None else of_module(self, evaluate, encoder, data),
                folder=folder,
                progress=in_words(progress),
            )
            self._learn(module, encoder, data)
        self.settings_, self.history_ = settings, history
        return self

    def rank(
        self,
        texts: Iterable[str],
        k: int = 5,
        *,
        restrict: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
    ) -> Ranking:
        """Return the `k` labels whose prototypes are nearest to each text.

        Parameters
        ----------
        texts
            One text per row.
        k
            Labels per row.
        restrict, exclude
            Label ids that may, or may not, be returned.
        """
        self._check_fitted()
        check_int(k, "k", low=1)
        return self.index_.rank(self.encode(texts), k, label_ids(restrict), label_ids(exclude))

    def predict(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return the label sets: at most 50 labels per row, as similar as labels of training rows usually are."""
        return self.rank(texts, k=_MOST).above(self.threshold_).to_sets()

    def encode(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return (n_texts, dimension) embeddings, in the space of the prototypes: features for other models."""
        self._check_fitted()
        return self.encoder_.transform(check_texts(texts))

    def score_labels(self, texts: Iterable[str], pairs: ArrayLike) -> NDArray[np.float32]:
        """Return the scores of given labels: (n_pairs, 2) whole numbers, row of `texts` and label."""
        vectors = self.encode(texts)
        wanted = check_pairs(pairs, len(vectors), self.n_labels_)
        scores: NDArray[np.float32] = np.einsum(
            "nd,nd->n", vectors[wanted[:, 0]], self.index_.vectors[wanted[:, 1]]
        )
        return scores

    def explain_text(self, text: str, label: int) -> list[tuple[str, float]]:
        """Return the words of a text with what each adds to a label's score; see `explain_words`."""
        self._check_fitted()
        return explain_words(self.encoder_, text, self.index_.vectors[label])

    def add_labels(self, label_texts: Iterable[str], *, weight: float | None = None) -> NDArray[np.int64]:
        """Add labels that are known by their texts alone, without training, and return their ids.

        Scores of new labels are multiplied by `weight`. Without it they take places from labels that the model has
        learned. Default 0.85 with prototypes (then the others lost 0.3 points of P@1 on held-out rows, with a tenth
        of the labels new; with 0.9 about 0.5, with 1 up to 3 points), and 1 where labels are their texts alone.
        """
        self._check_fitted()
        usual = 1.0 if self.network_ is None else NEW_LABEL_WEIGHT
        factor = usual if weight is None else check_float(weight, "weight", above=0.0)
        texts = list(check_texts(label_texts))
        self.index_ = self.index_.add(new_prototypes(self.network_, self.encode(texts)) * np.float32(factor))
        first, self.n_labels_ = self.n_labels_, len(self.index_)
        return np.arange(first, self.n_labels_)

    def with_classifiers(
        self, texts: Iterable[str], Y: Any, tree: LinearTree | None = None
    ) -> PrototypeClassifiers:
        """Return linear classifiers on the frozen embeddings of these rows, PRIME (W); `tree` has their settings."""
        self._check_fitted()
        return train_classifiers(self, texts, Y, tree)

    def settled(self) -> Self:
        """Return an unfitted copy whose settings are what trials chose, to train on other rows without trials."""
        self._check_fitted()
        chosen = self.settings_
        parts = (
            {} if chosen is None else {"prototype": chosen.prototype, "loss": chosen.loss, "centroids": None}
        )
        return type(self)(**{**self.get_params(deep=False), **parts})

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        return model_state(self)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        init, learned = learned_from_state(state)
        model = cls(**init)
        model._settings()
        for name, value in learned.items():
            setattr(model, name, value)
        return model

    def _learn(self, module: PrototypeModule, encoder: TextEncoder, data: PrototypeData) -> None:
        vectors = label_prototypes(module, encoder, data.labels)
        self.encoder_ = encoder
        self.network_ = module.network if module.settings.text else None
        self.index_ = LabelIndex(vectors, self.index, threads=self.threads)
        self.centroids_ = module.settings.centroids
        self.n_labels_ = len(vectors)
        sample = data.sample()
        found = self.index_.rank(encoder.embed(data.queries.take(sample)), _MOST)
        self.threshold_ = usual_threshold(found, int(data.Y[sample].nnz))

    def _settings(self) -> Settings:
        """Return the checked settings."""
        return checked_settings(self)

    def _check_params(self) -> None:
        self._settings()
