"""The settings of a `SetGenerator`, grouped by what they change: network, loss, decoding, training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_choice, check_float, check_int
from tagwood.errors import InputError
from tagwood.neural.otseq2set.loss import SCHEMES, STEPS, SetLossOptions, choose_scheme, mean_row_weight
from tagwood.neural.training import Training

OUTPUTS = ("auto", "full", "bottleneck", "candidates")
SCALES = ("mean", "sum")
EMPTIES = ("label", "free")
_MANY_LABELS = 5_000  # above this number "auto" restricts the output to candidates
_UNIT = 16  # sizes that vector units compute without a rest


@dataclass(frozen=True)
class NetworkSettings:
    """Sizes of the network and the words it reads.

    Parameters
    ----------
    word_vectors
        File of pretrained word vectors: GloVe's text format, or an ``.npy`` table with ``words.txt`` next to it.
        Default: random vectors of size `dimension`.
    dimension
        Size of word and label embeddings; ignored if there are `word_vectors`.
    hidden
        Size of the encoder and decoder states, a multiple of 16.
    layers, dropout
        GRU layers of the encoder, and the dropout between and after them.
    light_conv
        Also attend to spans of words (light convolutions), not only to single words.
    max_length
        Number of words read of each text.
    min_count
        Words in fewer texts than this are treated as one unknown word.
    """

    word_vectors: str | None = None
    dimension: int = 100
    hidden: int = 256
    layers: int = 2
    dropout: float = 0.2
    light_conv: bool = True
    max_length: int = 300
    min_count: int = 2

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        if self.word_vectors is not None and not isinstance(self.word_vectors, str):
            raise InputError("word_vectors must be the path of a file", given=type(self.word_vectors).__name__)
        for name in ("dimension", "layers", "max_length", "min_count"):
            check_int(getattr(self, name), name, low=1)
        check_int(self.hidden, "hidden", low=_UNIT)
        if self.hidden % _UNIT:
            raise InputError(
                f"hidden must be a multiple of {_UNIT}",
                given=str(self.hidden),
                hint=f"Use {(self.hidden // _UNIT + 1) * _UNIT}.",
            )
        check_float(self.dropout, "dropout", low=0.0, high=0.9)
        if not isinstance(self.light_conv, bool):
            raise InputError("light_conv must be True or False", given=repr(self.light_conv))


@dataclass(frozen=True)
class LossSettings:
    """The loss of ``"otseq2set"``; the other kinds use cross-entropy and ignore it.

    Parameters
    ----------
    scheme
        Decoder steps that labels are matched with: ``"all"`` steps, or the ``"first-n"`` steps of a row with n labels.
        ``"auto"`` chooses by the sizes of the training sets (`choose_scheme`).
    empty_weight
        Weight of steps without a label. A lower weight gives more labels.
    transport
        λ, the weight of the optimal transport between the generated and the true labels; 0 disables it.
    transport_steps
        ``"all"`` steps take part in the transport, or only those ``"matched"`` with a label.
    transport_empty
        Cost of ∅ in the transport: ``"label"`` treats it as a label with its own embedding, which pushes steps away
        from ∅; ``"free"`` costs nothing, so the transport changes which labels are generated but not how many.
    scale
        ``"mean"`` divides the matching loss by the average weight of a row's steps, the scale that `transport` is
        meant for; ``"sum"`` does not divide.
    teacher_epochs
        Number of first epochs in which the decoder is fed with true labels, frequent ones first.
    """

    scheme: str = "auto"
    empty_weight: float = 0.2
    transport: float = 8.0
    transport_steps: str = "all"
    transport_empty: str = "free"
    scale: str = "mean"
    teacher_epochs: int = 0

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        check_choice(self.scheme, "scheme", ("auto", *SCHEMES))
        check_float(self.empty_weight, "empty_weight", low=0.0)
        check_float(self.transport, "transport", low=0.0)
        check_choice(self.transport_steps, "transport_steps", STEPS)
        check_choice(self.transport_empty, "transport_empty", EMPTIES)
        check_choice(self.scale, "scale", SCALES)
        check_int(self.teacher_epochs, "teacher_epochs", low=0)

    def options(self, sizes: NDArray[np.int64], n_steps: int) -> SetLossOptions:
        """Return the options of `set_loss` for training sets of these sizes, at most `n_steps` each."""
        return SetLossOptions(
            scheme=choose_scheme(sizes) if self.scheme == "auto" else self.scheme,
            empty_weight=self.empty_weight,
            transport=self.transport,
            divisor=mean_row_weight(sizes, n_steps, self.empty_weight) if self.scale == "mean" else 1.0,
            transport_steps=self.transport_steps,
            free_empty=self.transport_empty == "free",
        )


@dataclass(frozen=True)
class DecodingSettings:
    """The decoder's output: number of steps, output layer, and search.

    Parameters
    ----------
    steps
        Number of decoder steps, the size of the largest set that can be generated. Default: the size of the largest
        training set.
    output
        ``"full"``; ``"bottleneck"``: through a layer of size `bottleneck`; ``"candidates"``: with a bottleneck, and
        only over the best `candidates` labels of a linear tree, which makes many labels possible; ``"auto"``:
        ``"full"`` up to 5,000 labels, ``"candidates"`` above.
    bottleneck, candidates
        See `output`.
    beam_width
        Beam width of the search in `predict` and `rank`; 1 takes the best label of each step.
    """

    steps: int | None = None
    output: str = "auto"
    bottleneck: int = 300
    candidates: int = 100
    beam_width: int = 1

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        if self.steps is not None:
            check_int(self.steps, "steps", low=1)
        check_choice(self.output, "output", OUTPUTS)
        for name in ("bottleneck", "candidates", "beam_width"):
            check_int(getattr(self, name), name, low=1)

    def output_for(self, n_labels: int) -> str:
        """Return the output layer for this number of labels."""
        if self.output == "auto":
            return "full" if n_labels <= _MANY_LABELS else "candidates"
        return self.output


@dataclass(frozen=True)
class SetTraining(Training):
    """`Training` with the defaults of `SetGenerator`."""

    epochs: int = 20
    weight_decay: float = 0.0
    warm_up: float = 0.0
    decay: str = "cosine"
    clip: float = 8.0
