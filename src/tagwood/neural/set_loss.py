"""The loss of OTSeq2Set on label sets: matching plus transport, L_b + λ L_ot (Eq. 17), for a whole batch at once.

In: logits (rows, steps, labels) and the label sets of the rows. Out: one number, with its gradient worked out by hand:
one softmax, two matrix products and two element-wise passes over rows x steps x labels.

Decisions
---------
* L_b is the sum over the steps (Eq. 13), L_ot one number per row, both averaged over rows. The authors' published code
  instead divides L_b by the weights of all steps, and λ = 8 belongs to that scale: `usual_weight` gives this divisor
  as a constant of the training set, so that a batch may still be cut into parts.
* Eq. 14 carries the mass of all steps to the labels, also of those that are to say ∅ (``steps="all"``);
  ``steps="matched"`` moves only the steps that are matched with a label.
* With p = softmax(z), q = Eᵀp, u = dL_ot/dq: dL/dz = p ∘ (w + λ (E u - u·q)) - w at the matched label, w the weight of
  the step. Where the cosine is not cut off, u·q = 0; Σ_v p_v (E u)_v is u·q, so it needs no pass over the labels.
* The plan is a constant of the gradient (the envelope theorem makes that exact at the optimum).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.nn.utils.rnn import pad_sequence

from tagwood._check import check_choice, check_float, check_int
from tagwood.errors import InputError
from tagwood.neural.set_loss_function import SetLossFunction
from tagwood.neural.set_loss_matching import SCHEMES, choose_scheme, match_labels
from tagwood.neural.set_loss_transport import LOWEST_BETA, transport_plan

__all__ = [
    "SetLossOptions",
    "choose_scheme",
    "match_labels",
    "pad_targets",
    "set_loss",
    "set_loss_parts",
    "transport_plan",
    "usual_weight",
]

STEPS = ("all", "matched")


@dataclass(frozen=True)
class SetLossOptions:
    """What the loss on label sets weighs, and how.

    Parameters
    ----------
    scheme
        ``"all"`` matches labels with any step, ``"first-n"`` the n labels of a row with its first n steps;
        `choose_scheme` chooses from the sizes of the training sets.
    empty_weight
        Weight of a step that is to say ∅.
    ot_weight
        λ, the weight of the transport; 0 leaves it out, and with it all work on embeddings.
    divisor
        L_b is divided by this number; 1 is Eq. 13, `usual_weight` the scale of the authors' code.
    steps
        Which steps the transport moves: ``"all"`` (the paper) or those ``"matched"`` with a label.
    beta, iterations
        Of the transport plan, see `transport_plan`.
    """

    scheme: str = "all"
    empty_weight: float = 0.2
    ot_weight: float = 8.0
    divisor: float = 1.0
    steps: str = "all"
    beta: float = 0.5
    iterations: int = 50

    def check(self) -> None:
        """Raise `InputError` for a value that does not fit."""
        check_choice(self.scheme, "scheme", SCHEMES)
        check_float(self.empty_weight, "empty_weight", low=0.0)
        check_float(self.ot_weight, "ot_weight", low=0.0)
        check_float(self.divisor, "divisor", above=0.0)
        check_choice(self.steps, "steps", STEPS)
        check_float(self.beta, "beta", low=LOWEST_BETA)
        check_int(self.iterations, "iterations", low=1)


def set_loss(
    logits: torch.Tensor,
    targets: torch.Tensor | Sequence[Sequence[int]],
    embeddings: torch.Tensor | None = None,
    *,
    empty: int,
    options: SetLossOptions | None = None,
    candidates: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the mean loss of the rows of a batch; it does not depend on the order of a row's labels.

    Parameters
    ----------
    logits
        (rows, steps, outputs) of all steps, finite; column j is label j, or ``candidates[j]``.
    targets
        The labels of each row, without ∅: one or more, each once, at most as many as steps. A list per row, or an
        array (rows, most) filled up with -1.
    embeddings
        (outputs of the whole vocabulary, dimensions) label embeddings E. Needed where ``ot_weight`` is above 0. Pass
        ``E.detach()`` as the authors do: embeddings that learn from the transport may move together instead. Where
        columns mean something else in each row: (rows, outputs, dimensions), and targets and ∅ are column numbers.
    empty
        The number of ∅.
    options
        Scheme and weights.
    candidates
        (outputs,) the labels that the columns stand for, each once, where the output is restricted to some labels;
        among them ∅ and all targets. Targets, ∅ and embeddings keep their numbers.

    Examples
    --------
    Two steps, three outputs, ∅ is number 2; the row has label 1. The better step for it is the second.

    >>> logits = torch.tensor([[[0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]])
    >>> options = SetLossOptions(ot_weight=0.0)
    >>> round(float(set_loss(logits, [[1]], empty=2, options=options)), 4)  # 0.2 ln 3 + ln((2 + e²) / e²)
    0.4593
    """
    logits, labels, vectors, empty, options = _inputs(logits, targets, embeddings, empty, options, candidates)
    return SetLossFunction.apply(logits, vectors, labels, empty, options)[0]  # type: ignore[no-any-return, no-untyped-call]


def set_loss_parts(
    logits: torch.Tensor,
    targets: torch.Tensor | Sequence[Sequence[int]],
    embeddings: torch.Tensor | None = None,
    *,
    empty: int,
    options: SetLossOptions | None = None,
    candidates: torch.Tensor | None = None,
) -> tuple[float, float]:
    """Return L_b (divided) and L_ot (without λ) of a batch as numbers, for logs; arguments as in `set_loss`."""
    logits, labels, vectors, empty, options = _inputs(logits, targets, embeddings, empty, options, candidates)
    with torch.no_grad():
        _, parts = SetLossFunction.apply(logits, vectors, labels, empty, options)  # type: ignore[no-untyped-call]
    return float(parts[0]), float(parts[1])


def pad_targets(labels: Sequence[ArrayLike]) -> torch.Tensor:
    """Return lists of labels as one array (rows, most), filled up with -1.

    Examples
    --------
    >>> pad_targets([[4], [1, 2]])
    tensor([[ 4, -1],
            [ 1,  2]])
    """
    rows = [torch.as_tensor(np.asarray(row, dtype=np.int64)) for row in labels]
    return pad_sequence(rows, batch_first=True, padding_value=-1)


def usual_weight(sizes: ArrayLike, n_steps: int, empty_weight: float = 0.2) -> float:
    """Return the mean weight of a row's steps: n̄ + weight of ∅ x (steps - n̄). As `divisor`, L_b is a mean over steps.

    Examples
    --------
    >>> usual_weight([4, 6], n_steps=25)
    9.0
    """
    mean = float(np.mean(np.asarray(sizes, dtype=np.float64)))
    return mean + empty_weight * (n_steps - mean)


def _inputs(
    logits: torch.Tensor,
    targets: torch.Tensor | Sequence[Sequence[int]],
    embeddings: torch.Tensor | None,
    empty: int,
    options: SetLossOptions | None,
    candidates: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, int, SetLossOptions]:
    """Return what the function takes: labels as columns of the logits, and the columns' embeddings if needed."""
    options = options or SetLossOptions()
    options.check()
    labels = targets if isinstance(targets, torch.Tensor) else pad_targets(targets)
    labels = labels.to(device=logits.device, dtype=torch.int64)
    vectors = embeddings if options.ot_weight else None
    if options.ot_weight and embeddings is None:
        raise InputError("embeddings must be given where ot_weight is above 0", given="None")
    if candidates is not None:
        labels, empty = _as_columns(labels, empty, candidates)
        vectors = None if vectors is None else vectors.index_select(0, candidates)
    _check_shapes(logits, labels, vectors, empty)
    return logits, labels, vectors, empty, options


def _as_columns(labels: torch.Tensor, empty: int, candidates: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return labels and ∅ as positions among the candidates."""
    order = torch.argsort(candidates)
    wanted = torch.cat([labels.reshape(-1), labels.new_tensor([empty])])
    real = wanted >= 0
    place = torch.searchsorted(candidates[order], wanted).clamp_max_(candidates.numel() - 1)
    columns = order[place]
    missing = real & (candidates[columns] != wanted)
    if missing.any():
        raise InputError(
            "candidates must hold ∅ and all labels of the rows",
            given=f"none for {int(wanted[missing][0])}",
            hint="Add the labels of a batch to its candidates.",
        )
    columns = torch.where(real, columns, -1)
    return columns[:-1].view_as(labels), int(columns[-1])


def _check_shapes(
    logits: torch.Tensor, labels: torch.Tensor, vectors: torch.Tensor | None, empty: int
) -> None:
    n_rows, n_steps, n_outputs = logits.shape
    if labels.shape[0] != n_rows:
        raise InputError(f"targets must have {n_rows:,} rows, as the logits do", given=f"{labels.shape[0]:,}")
    if vectors is not None and vectors.shape[:-1] not in ((n_outputs,), (n_rows, n_outputs)):
        raise InputError(
            f"embeddings must have {n_outputs:,} rows, one per output", given=f"{vectors.shape[-2]:,}"
        )
    check_int(empty, "empty", low=0, high=n_outputs - 1)
    sizes = (labels >= 0).sum(dim=1)
    if n_rows and (int(sizes.min()) < 1 or int(sizes.max()) > n_steps):
        raise InputError(
            f"every row must have from 1 to {n_steps} labels, the number of steps",
            given=f"rows with {int(sizes.min())} to {int(sizes.max())}",
            hint="Leave rows without labels out; give the decoder as many steps as the largest set has labels.",
        )
    if labels.numel() and (int(labels.max()) >= n_outputs or bool((labels == empty).any())):
        raise InputError(
            f"targets must be numbers below {n_outputs:,} other than ∅ ({empty})",
            given=f"{int(labels.max())}",
        )
