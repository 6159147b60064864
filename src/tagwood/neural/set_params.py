"""The settings of a `SetGenerator`: stored, checked, and turned into those of its parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood.errors import InputError
from tagwood.models.base import FittedModel
from tagwood.neural.set_loss import STEPS, SetLossOptions, choose_scheme, usual_weight
from tagwood.neural.set_network import SetSizes
from tagwood.neural.set_training import SetTask
from tagwood.neural.training import Training

KINDS = ("otseq2set", "seq2seq", "mlc2seq", "sgm")
OUTPUTS = ("auto", "full", "bottleneck", "candidates")
SCALES = ("mean", "sum")
EMPTIES = ("label", "free")
_MANY = 5_000  # labels above which the output is restricted to candidates
_UNIT = 16  # groups of channels of both directions


class SetParams(FittedModel):
    """Constructor and checks of `SetGenerator`, where the parameters are described."""

    def __init__(
        self,
        *,
        kind: str = "otseq2set",
        light_conv: bool = True,
        scheme: str = "auto",
        ot_weight: float = 8.0,
        ot_steps: str = "all",
        ot_empty: str = "label",
        empty_weight: float = 0.2,
        loss_scale: str = "mean",
        teacher_epochs: int = 0,
        word_vectors: str | None = None,
        dimension: int = 100,
        hidden: int = 256,
        layers: int = 2,
        dropout: float = 0.2,
        max_length: int = 300,
        min_count: int = 2,
        steps: int | None = None,
        output: str = "auto",
        bottleneck: int = 300,
        candidates: int = 100,
        beam: int = 1,
        epochs: int = 20,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        patience: int = 0,
        checkpoint_minutes: float = 10.0,
        device: str = "cpu",
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.kind = kind
        self.light_conv = light_conv
        self.scheme = scheme
        self.ot_weight = ot_weight
        self.ot_steps = ot_steps
        self.ot_empty = ot_empty
        self.empty_weight = empty_weight
        self.loss_scale = loss_scale
        self.teacher_epochs = teacher_epochs
        self.word_vectors = word_vectors
        self.dimension = dimension
        self.hidden = hidden
        self.layers = layers
        self.dropout = dropout
        self.max_length = max_length
        self.min_count = min_count
        self.steps = steps
        self.output = output
        self.bottleneck = bottleneck
        self.candidates = candidates
        self.beam = beam
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.checkpoint_minutes = checkpoint_minutes
        self.device = device
        self.seed = seed
        self.threads = threads

    @property
    def _blank(self) -> bool:
        """Whether ∅ is a blank and not the end."""
        return self.kind == "otseq2set"

    @property
    def _order(self) -> str:
        """In which order labels are generated, where there is one."""
        return "given" if self.kind == "seq2seq" else "frequency"

    def _training(self) -> Training:
        return Training(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=0.0,
            warm_up=0.0,
            decay="cosine",
            clip=8.0,
            patience=self.patience,
            checkpoint_minutes=self.checkpoint_minutes,
            device=self.device,
        )

    def _task(self, sizes: NDArray[np.int64], n_steps: int) -> SetTask:
        """Return how to learn sets of these sizes."""
        if not self._blank:
            return SetTask(None, n_steps)
        sizes = np.minimum(sizes, n_steps)
        return SetTask(
            SetLossOptions(
                scheme=choose_scheme(sizes) if self.scheme == "auto" else self.scheme,
                empty_weight=self.empty_weight,
                ot_weight=self.ot_weight,
                divisor=usual_weight(sizes, n_steps, self.empty_weight) if self.loss_scale == "mean" else 1.0,
                steps=self.ot_steps,
            ),
            n_steps,
            self.ot_empty == "free",
        )

    def _sizes(self, n_words: int, n_labels: int, dimension: int) -> SetSizes:
        return SetSizes(
            n_words,
            n_labels,
            dimension,
            self.hidden,
            self.layers,
            self.bottleneck if self._output(n_labels) != "full" else 0,
            self.light_conv,
            self.kind == "sgm",
            self.dropout,
        )

    def _output(self, n_labels: int) -> str:
        if self.output == "auto":
            return "full" if n_labels <= _MANY else "candidates"
        return self.output

    def _check_params(self) -> None:
        check_choice(self.kind, "kind", KINDS)
        check_choice(self.scheme, "scheme", ("auto", "all", "first-n"))
        check_choice(self.loss_scale, "loss_scale", SCALES)
        check_choice(self.ot_steps, "ot_steps", STEPS)
        check_choice(self.ot_empty, "ot_empty", EMPTIES)
        check_choice(self.output, "output", OUTPUTS)
        check_float(self.ot_weight, "ot_weight", low=0.0)
        check_float(self.empty_weight, "empty_weight", low=0.0)
        check_float(self.dropout, "dropout", low=0.0, high=0.9)
        for name in ("dimension", "layers", "max_length", "min_count", "bottleneck", "candidates", "beam"):
            check_int(getattr(self, name), name, low=1)
        check_int(self.teacher_epochs, "teacher_epochs", low=0)
        if self.steps is not None:
            check_int(self.steps, "steps", low=1)
        check_int(self.hidden, "hidden", low=_UNIT)
        if self.hidden % _UNIT:
            raise InputError(
                f"hidden must be a multiple of {_UNIT}",
                given=str(self.hidden),
                hint=f"Take {(self.hidden // _UNIT + 1) * _UNIT}.",
            )
        if not isinstance(self.light_conv, bool):
            raise InputError("light_conv must be True or False", given=repr(self.light_conv))
        if self.word_vectors is not None and not isinstance(self.word_vectors, str):
            raise InputError(
                "word_vectors must be the path of a file", given=type(self.word_vectors).__name__
            )
        check_int(self.seed, "seed", low=0, high=(1 << 63) - 1)
        check_threads(self.threads)
        self._training().check()
