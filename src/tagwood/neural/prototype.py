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

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_float, check_int, check_threads
from tagwood.features.texts import check_texts
from tagwood.models.base import FittedModel
from tagwood.models.linear_tree import LinearTree
from tagwood.models.text_rows import check_text_rows
from tagwood.models.tree_inputs import check_pairs
from tagwood.models.tree_training import Progress
from tagwood.neural.encoder_explanation import explain_words
from tagwood.neural.label_index import LabelIndex
from tagwood.neural.prototype_classifiers import PrototypeClassifiers, train_classifiers
from tagwood.neural.prototype_fitting import checked_settings, first_encoder, of_module, with_centroids
from tagwood.neural.prototype_inputs import check_label_texts, hold_out, label_ids, usual_threshold
from tagwood.neural.prototype_loss import PrototypeLoss
from tagwood.neural.prototype_network import Prototype, PrototypeModule, PrototypeNetwork
from tagwood.neural.prototype_settings import Batching, Settings
from tagwood.neural.prototype_state import learned_from_state, model_state
from tagwood.neural.prototype_training import (
    PrototypeData,
    label_prototypes,
    new_module,
    new_prototypes,
    train_module,
)
from tagwood.neural.text_encoder import TextEncoder
from tagwood.neural.threads import torch_threads
from tagwood.neural.training import Training, in_words
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

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
        texts: Iterable[str],
        Y: Any,
        *,
        label_texts: Iterable[str] | None = None,
        evaluate: Callable[[Self], float] | None = None,
        folder: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from texts, their labels and the labels' texts.

        Parameters
        ----------
        texts
            One text per row.
        Y
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
        rows, labels = check_text_rows(texts, Y)
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
        return type(self)(**{**self.get_params(), **parts})

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
