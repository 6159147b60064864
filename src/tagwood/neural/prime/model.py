"""`PrototypeModel`: a text encoder and label prototypes in one space (PRIME), and the plain dual encoder.

In: texts, label sets and the text of each label. Out: a ranking by cosine similarity; new labels from their text alone.

Decisions
---------
* After training only the encoder, the prototypes of all labels and the prototype network are kept: centroids and free
  vectors are part of the prototypes. A new label passes through the network with its text as the only source.
* Scores are cosine similarities. `predict` cuts them where the training rows get as many labels as they have; a Tagger
  calibrates them instead.
* Same seed and number of torch threads, same model on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from torch import nn

from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._sparse import check_labels
from tagwood.errors import InputError
from tagwood.features.base import check_texts
from tagwood.metrics import evaluate as evaluate_ranking
from tagwood.models.base import FittedModel, Progress, check_label_texts, check_pairs, check_text_rows
from tagwood.neural.encoders.modules import HeadModule, StateMemory
from tagwood.neural.encoders.text_encoder import FROM_SCRATCH, TextEncoder, suitable_encoder
from tagwood.neural.prime.classifiers import PrototypeClassifiers
from tagwood.neural.prime.label_index import LabelIndex
from tagwood.neural.prime.network import PrototypeNetwork
from tagwood.neural.prime.settings import CENTROIDS, PRESETS, RATES, PrototypeSettings, PrototypeTraining
from tagwood.neural.prime.training import (
    FEWEST_ROWS,
    PrototypeData,
    best_candidate,
    draw_trial_rows,
    label_prototypes,
    new_module,
    new_prototypes,
    train_module,
    trial_settings,
)
from tagwood.neural.torch_state import load_arrays, module_arrays, torch_threads
from tagwood.neural.training import History, Training
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

NEW_LABEL_WEIGHT = 0.85
_MAX_LABELS = 50  # labels per row that `predict` returns
_SAMPLE = 1000  # training rows from which its threshold is learned
_HELD_OUT = 0.1  # share of the rows held out for early stopping
_MAX_HELD_OUT = 2000


@storable("PrototypeModel")
class PrototypeModel(FittedModel):
    """Rank labels by the similarity of a text and the labels' prototypes.

    1. An encoder embeds texts and label texts. 2. A prototype combines a label's text, the centroid of its training
    texts and a vector that it shares with similar labels. 3. Triplet losses pull texts towards the prototypes of their
    labels and away from those of similar texts. 4. A text gets the labels with the nearest prototypes.

    Parameters
    ----------
    preset
        ``"prime"``; ``"prime-lite"``: one positive per text, half the batch size; ``"dual-encoder"``: label texts
        alone; ``"ngame"``: the same with batches of similar texts. Or `PrototypeSettings` of your own.
    encoder
        ``"minilm"`` or the path of a folder with weights, of which only a head is trained; ``"bag"`` (fast) or
        ``"small"``, trained from scratch; ``"auto"``: minilm if it is installed and knows the words of the texts
        (English), otherwise bag; or a `TextEncoder`: training starts from its weights if it is fitted (a clone by
        scikit-learn is not).
    centroids
        Replaces the preset's centroids; see `Prototype`.
    epochs, batch_size, learning_rate
        Replace those of `training` or the preset. With 0 epochs nothing is trained: a prototype is the mean of the
        label's text and of its rows, and nothing but the frozen weights of the encoder is computed.
    training
        Replaces the preset's `PrototypeTraining`.
    index
        Search for the nearest labels: ``"auto"``, ``"flat"``, ``"hnsw"`` or ``"ivf"``; see `LabelIndex`.
    seed, threads
        Same seed and number of threads (default all cores), same model on the CPU.

    Attributes
    ----------
    encoder_ : TextEncoder, trained
    index_ : LabelIndex over the prototypes
    settings_ : PrototypeSettings used, with the centroids that were chosen
    trials_ : dict, nDCG@5 of each kind of centroids on held-out rows; empty without trials
    history_ : History of the training; None in a loaded model
    untrained_ : held-out measure before training; None without held-out rows and in a loaded model
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
    data_parallel = True  # see `tagwood.scale.processes`
    encoder_: TextEncoder
    network_: PrototypeNetwork | None
    index_: LabelIndex
    settings_: PrototypeSettings
    trials_: dict[str, float]
    history_: History | None
    untrained_: float | None
    threshold_: float

    def __init__(
        self,
        *,
        preset: str | PrototypeSettings = "prime",
        encoder: str | TextEncoder = "auto",
        centroids: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
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
        self.training = training
        self.index = index
        self.seed = seed
        self.threads = threads

    @property
    def centroids_(self) -> str:
        """The kind of centroids in use."""
        return self.settings_.prototype.centroids

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
        X, y
            One text per row; (n_rows, n_labels) label sets: a 0/1 matrix, or the label ids of each row.
        label_texts
            One text per label, such as its name.
        evaluate
            Held-out measure of this model, higher is better, called before training and after each epoch; the best
            weights are kept, the untrained ones if no epoch improves them. Without it, and from 200 rows on, a tenth
            of the rows is held out to measure nDCG@5; the final centroids are those of all rows.
        folder, progress
            Folder for checkpoints, from which the same call resumes; function called with a line and the share done.
        """
        rows, labels = check_text_rows(X, y)
        if label_texts is None:
            raise InputError(
                f"a PrototypeModel needs label_texts: one text for each of the {labels.shape[1]:,} labels",
                given="none",
                hint="Pass the labels' names: fit(X, y, label_texts=names).",
            )
        names = check_label_texts(label_texts, labels.shape[1])
        self.check_params()
        threads = check_threads(self.threads)
        with torch_threads(threads):
            encoder = self._initial_encoder([*rows, *names])
            memory = encoder.memory
            if encoder.device == "cpu":  # frozen weights see the texts where the training takes place
                encoder.device = self.resolved_settings(encoder).training.device
            settings, self.trials_ = self.choose_settings(rows, labels, names, encoder, progress)
            whole = PrototypeData(encoder.inputs(rows), encoder.inputs(names), labels, rows)
            data = whole
            trains = settings.training.epochs > 0
            if trains and evaluate is None and (settings.training.patience or len(rows) >= FEWEST_ROWS):
                kept, held = _hold_out(labels, self.seed)
                data = whole.take(kept)
                evaluate = _ndcg([rows[row] for row in held], labels[held])
            encoder.memory = memory  # one that only the trials needed is dropped
            module = new_module(encoder, data, settings, self.seed, threads)

            def measure(trained: nn.Module) -> float:
                assert evaluate is not None
                model = type(self)(**self.get_params(deep=False))
                return evaluate(model._learn(trained, encoder, data, settings))

            first = {name: value.clone() for name, value in module.state_dict().items()}
            self.untrained_ = None if evaluate is None else measure(module)
            self.history_ = History()
            if trains:
                self.history_ = train_module(
                    module,
                    data,
                    settings,
                    seed=self.seed,
                    threads=threads,
                    evaluate=None if evaluate is None else measure,
                    folder=folder,
                    progress=progress,
                )
            if self.untrained_ is not None and self.untrained_ >= max(self.history_.measures, default=0.0):
                module.load_state_dict(first)  # training improved nothing
            if module.memory is not None:
                module.memory.settle(whole.Y, encoder.embed(whole.queries))
            self._learn(module, encoder, whole, settings)
        return self

    def rank(
        self,
        X: Iterable[str],
        k: int = 5,
        *,
        restrict: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
    ) -> Ranking:
        """Return the `k` labels whose prototypes are nearest to each text.

        Only labels in `restrict`, and none in `exclude`, are returned.
        """
        self._check_fitted()
        check_int(k, "k", low=1)
        only, out = (None if ids is None else np.atleast_1d(ids) for ids in (restrict, exclude))
        return self.index_.rank(self.encode(X), k, only, out)

    def predict(self, X: Iterable[str]) -> sparse.csr_array:
        """Return the label sets: at most 50 labels per row, as similar as the labels of training rows usually are."""
        return self.rank(X, k=_MAX_LABELS).above(self.threshold_).to_sets()

    def encode(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return (n_texts, dimension) embeddings in the space of the prototypes: features for other models."""
        self._check_fitted()
        return self.encoder_.transform(check_texts(texts))

    def score_labels(self, X: Iterable[str], pairs: ArrayLike) -> NDArray[np.float32]:
        """Return the scores of (n_pairs, 2) pairs: the row of a text, and a label."""
        vectors = self.encode(X)
        wanted = check_pairs(pairs, len(vectors), self.n_labels_)
        scores: NDArray[np.float32] = np.einsum("nd,nd->n", vectors[wanted[:, 0]], self.index_.vectors[wanted[:, 1]])
        return scores

    def explain_text(self, text: str, label: int) -> list[tuple[str, float]]:
        """Return the words of a text with what each adds to a label's score; see `TextEncoder.explain`."""
        self._check_fitted()
        return self.encoder_.explain(text, self.index_.vectors[label])

    def add_labels(self, label_texts: Iterable[str], *, weight: float | None = None) -> NDArray[np.int64]:
        """Add labels by their texts alone, without training, and return their ids.

        Scores of new labels are multiplied by `weight`, because they would otherwise displace labels that the model has
        learned. The default is 0.85 with prototypes (the others then lost 0.3 points of P@1 on held-out rows, with a
        tenth of the labels new; about 0.5 with 0.9, up to 3 points with 1), and 1 where labels are their texts alone.
        """
        self._check_fitted()
        usual = 1.0 if self.network_ is None else NEW_LABEL_WEIGHT
        factor = usual if weight is None else check_float(weight, "weight", above=0.0)
        texts = list(check_texts(label_texts))
        self.index_ = self.index_.add(new_prototypes(self.network_, self.encode(texts)) * np.float32(factor))
        first, self.n_labels_ = self.n_labels_, len(self.index_)
        return np.arange(first, self.n_labels_)

    def with_classifiers(
        self, X: Iterable[str], y: Any, *, label_texts: Iterable[str] | None = None, C: float | None = None
    ) -> PrototypeClassifiers:
        """Return linear classifiers on the frozen embeddings of these rows that start from the prototypes, PRIME (W).

        They know all labels of this model, also those without rows. `C` is chosen on held-out rows by default, which
        needs the texts of all labels.
        """
        self._check_fitted()
        rows, labels = check_text_rows(X, y)
        if labels.shape[1] > self.n_labels_:
            raise InputError(f"y must have the {self.n_labels_:,} labels of the model", given=f"{labels.shape[1]:,}")
        labels = sparse.csr_array((labels.data, labels.indices, labels.indptr), shape=(labels.shape[0], self.n_labels_))
        classifiers = PrototypeClassifiers(self.encoder_, C=C, seed=self.seed, threads=self.threads)
        return classifiers.fit(rows, labels, label_texts=label_texts, prototypes=self.index_.vectors)

    def settled(self) -> Self:
        """Return an unfitted copy with the encoder and settings that were chosen, to train without trials."""
        self._check_fitted()
        return type(self)(
            preset=self.settings_,
            encoder=self.encoder_.encoder if self.encoder == "auto" else self.encoder,
            index=self.index,
            seed=self.seed,
            threads=self.threads,
        )

    @property
    def remembers_texts(self) -> bool:
        """Whether further trainings on the same texts take little time."""
        return isinstance(self.encoder, TextEncoder) and self.encoder.memory is not None

    def forget_texts(self) -> None:
        """Drop the outputs of frozen weights that were kept for several trainings on the same texts."""
        for encoder in (self.encoder, self.encoder_):
            if isinstance(encoder, TextEncoder):
                encoder.memory = None

    def resolved_settings(self, encoder: TextEncoder | None = None) -> PrototypeSettings:
        """Return the checked settings before trials.

        A learning rate of 0 becomes the default for the encoder and for what is trained of it; without an encoder it
        stays 0.
        """
        found = self.preset
        if not isinstance(found, PrototypeSettings):
            found = replace(PRESETS[check_choice(found, "preset", PRESETS)], based_on=found)
        if self.training is not None:
            found = replace(found, training=self.training)
        if self.centroids is not None:
            found = replace(found, prototype=replace(found.prototype, centroids=self.centroids))
        found.check()
        given = {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        training = replace(found.training, **changes)
        training.check()
        if encoder is not None and training.learning_rate == 0:
            rate = RATES["scratch" if encoder.encoder in FROM_SCRATCH else encoder.trained]
            training = replace(training, learning_rate=rate)
        return replace(found, training=training)

    def choose_settings(
        self,
        texts: list[str],
        Y: sparse.csr_array,
        label_texts: list[str],
        encoder: TextEncoder,
        progress: Progress | None = None,
    ) -> tuple[PrototypeSettings, dict[str, float]]:
        """Return the settings with a kind of centroids, and the measure of each kind if trials chose it.

        All trials start from the fitted `encoder`, which remembers the outputs of frozen weights for the training.
        """
        settings = self.resolved_settings(encoder)
        if settings.prototype.centroids != "auto":
            return settings, {}
        if encoder.memory is None and isinstance(encoder.module, HeadModule):
            encoder.memory = StateMemory()
        candidates = trial_settings(settings)
        if settings.training.epochs == 0 or np.count_nonzero(np.diff(Y.indptr)) < FEWEST_ROWS:
            return next(iter(candidates.values())), {}
        labels, trained, held = draw_trial_rows(Y, self.seed)
        known, true = check_labels(Y[trained][:, labels]), check_labels(Y[held][:, labels])
        names = [label_texts[label] for label in labels]
        rows, held_rows = ([texts[row] for row in chosen] for chosen in (trained, held))
        rankings: dict[str, Ranking] = {}
        for number, (kind, tried) in enumerate(candidates.items()):
            if progress is not None:
                progress(f"trial of centroids: {kind}", number / len(candidates))
            tried = replace(tried, training=replace(tried.training, patience=0))
            model = type(self)(preset=tried, encoder=encoder, index=self.index, seed=self.seed, threads=self.threads)
            rankings[kind] = model.fit(rows, known, label_texts=names).rank(held_rows, k=5)
        best, measures = best_candidate(true, rankings)
        return candidates[best], measures

    def state(self) -> State:
        """Return the stored form: encoder, prototypes, prototype network and settings."""
        self._check_fitted()
        init = self.get_params(deep=False)
        init["training"] = None if self.training is None else asdict(self.training)
        if isinstance(self.preset, PrototypeSettings):
            init["preset"] = asdict(self.preset)
        if isinstance(self.encoder, TextEncoder):
            init["encoder"] = self.encoder.stored_params()
        else:
            init["encoder"] = str(self.encoder)
        return State(
            "PrototypeModel",
            params={
                "init": init,
                "settings": asdict(self.settings_),
                "trials": self.trials_,
                "threshold": self.threshold_,
                "has_network": self.network_ is not None,
            },
            arrays={} if self.network_ is None else module_arrays(self.network_),
            parts={"encoder": self.encoder_.state(), "index": self.index_.state()},
        )

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        init = dict(state.param("init", dict))
        if init["training"] is not None:
            init["training"] = PrototypeTraining(**init["training"])
        if isinstance(init["preset"], dict):
            init["preset"] = PrototypeSettings.from_dict(init["preset"])
        if isinstance(init["encoder"], dict):
            init["encoder"] = TextEncoder(**init["encoder"])
        model = cls(**init)
        model.check_params()
        model.encoder_ = TextEncoder.from_state(state.part("encoder"))
        model.index_ = LabelIndex.from_state(state.part("index"))
        dimension = model.encoder_.n_features
        if model.index_.vectors.shape[1] != dimension:
            raise InputError(
                f"stored prototypes must have the {dimension} numbers of the encoder",
                given=str(model.index_.vectors.shape[1]),
            )
        model.network_ = None
        if state.param("has_network", bool):
            share = 0.5 if "share" in state.arrays else None  # filled below
            model.network_ = PrototypeNetwork(dimension, share).eval()
            load_arrays(model.network_, state)
        model.settings_ = PrototypeSettings.from_dict(state.param("settings", dict))
        check_choice(model.centroids_, "centroids", CENTROIDS)
        model.trials_ = dict(state.param("trials", dict))
        model.threshold_ = check_float(state.param("threshold", float), "threshold")
        model.n_labels_, model.history_, model.untrained_ = len(model.index_), None, None
        return model

    def _new_encoder(self, texts: Sequence[str] = ()) -> TextEncoder:
        """Return the unfitted encoder for some texts; only a head is trained behind pretrained weights."""
        if isinstance(self.encoder, TextEncoder):
            encoder = TextEncoder(**self.encoder.get_params(deep=False))
            encoder.memory = self.encoder.memory
            return encoder
        name = suitable_encoder(texts) if self.encoder == "auto" else self.encoder
        trained = "all" if name in FROM_SCRATCH else "head"
        return TextEncoder(name, trained=trained, seed=self.seed, threads=self.threads)

    def _initial_encoder(self, texts: list[str]) -> TextEncoder:
        """Return the encoder that training starts from: fitted on `texts`, or a copy of a fitted one."""
        if isinstance(self.encoder, TextEncoder) and hasattr(self.encoder, "tokenizer_"):
            copy = TextEncoder.from_state(self.encoder.state())
            copy.memory = self.encoder.memory
            return copy
        return self._new_encoder(texts).fit(texts)

    def _learn(self, module: Any, encoder: TextEncoder, data: PrototypeData, settings: PrototypeSettings) -> Self:
        """Take encoder, prototypes and threshold from a `PrototypeModule`."""
        vectors = label_prototypes(module, encoder, data.labels)
        self.encoder_, self.network_, self.settings_ = encoder, module.network, settings
        self.index_ = LabelIndex(vectors, self.index, threads=self.threads)
        self.n_labels_ = len(vectors)
        sample = np.unique(np.linspace(0, data.Y.shape[0] - 1, _SAMPLE).astype(np.int64))
        found = self.index_.rank(encoder.embed(data.queries.take(sample)), _MAX_LABELS)
        self.threshold_ = usual_threshold(found, int(data.Y[sample].nnz))
        return self

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        check_int(self.seed, "seed", low=0, high=(1 << 63) - 1)
        check_threads(self.threads)
        encoder = self._new_encoder()
        encoder.check_params()
        LabelIndex(np.zeros((1, 1)), self.index)
        self.resolved_settings(encoder)


def usual_threshold(ranking: Ranking, n_true: int) -> float:
    """Return the score above which the rows together have `n_true` labels.

    Examples
    --------
    >>> usual_threshold(Ranking.from_lists([[(0, 0.75), (1, 0.25)], [(1, 0.5)]], n_labels=2), 2)
    0.5
    """
    if ranking.scores.size == 0:
        return 0.0
    return float(np.sort(ranking.scores)[::-1][max(0, min(n_true, ranking.scores.size) - 1)])


def _hold_out(Y: sparse.csr_array, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to train on, and the rows to measure on."""
    n_rows = Y.shape[0]
    order = np.random.default_rng([seed, 10]).permutation(n_rows)
    cut = max(1, min(_MAX_HELD_OUT, round(_HELD_OUT * n_rows)))
    held, rest = np.sort(order[:cut]), np.sort(order[cut:])
    if Y[rest].nnz == 0:
        raise InputError(
            "early stopping needs rows with labels to train on, and others to measure on",
            given=f"{n_rows:,} rows",
            hint="Set patience=0.",
        )
    return rest, held


def _ndcg(texts: list[str], Y: sparse.csr_array) -> Callable[[Any], float]:
    """Return a measure of models: nDCG@5 on these rows."""
    return lambda model: float(evaluate_ranking(Y, model.rank(texts, k=5), metrics=["nDCG@5"])["nDCG@5"])
