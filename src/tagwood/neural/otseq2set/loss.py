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
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pad_sequence

from tagwood._check import check_choice, check_float, check_int
from tagwood.errors import InputError

# SECTION neural.set_loss_matching
# Which step of the decoder learns which label: bipartite matching of a batch, and the choice of its scheme.
#
# In: the probabilities (rows, steps, labels) of a row's own labels at each step, never of all labels. Out: the label
# that each step is to say; the other steps are to say ∅.
#
# Decisions
# ---------
# * SciPy's solver is called once per row: a batch takes less than a millisecond, and threads do not make it faster.
# * The paper's rule for the scheme (§3.6) is printed with two sentences that describe the same rows and name different
#   winners. Its Table 5 and the shapes of its sets (AmazonCat-13K: a long tail of large sets, ``first-n`` won;
#   Amazon-670K: most sets near the largest size, ``all`` won) agree with this one: where more than half of the
# rows have
#   at most the mean number of labels, take ``first-n``.


SCHEMES = ("all", "first-n")


def choose_scheme(sizes: ArrayLike) -> str:
    """Return the matching scheme that suits label sets of these sizes, by the rule of the paper's §3.6.

    Parameters
    ----------
    sizes
        Number of labels of each training row.

    Returns
    -------
    ``"first-n"`` where more than half of the rows have at most the mean number of labels, else ``"all"``.

    Examples
    --------
    >>> choose_scheme([1, 1, 2, 2, 20]), choose_scheme([7, 7, 7, 2, 1])
    ('first-n', 'all')
    """
    counts = np.asarray(sizes, dtype=np.float64)
    if counts.size == 0:
        raise InputError("sizes must name one row or more", given="none")
    return "first-n" if np.mean(counts <= counts.mean()) > 0.5 else "all"


def match_labels(probabilities: torch.Tensor, sizes: torch.Tensor, scheme: str = "all") -> torch.Tensor:
    """Return for each step the position of the label it is matched with, or -1 for none.

    The matching has the largest sum of probabilities (Eq. 11 and 12): over all steps with ``"all"``, over the first n
    steps of a row with n labels with ``"first-n"``.

    Parameters
    ----------
    probabilities
        (rows, steps, labels): p of a row's own labels at each step; columns from a row's size on are padding.
    sizes
        (rows,) number of labels of each row, from 1 to the number of steps.

    Examples
    --------
    >>> p = torch.tensor([[[0.1, 0.2], [0.2, 0.1], [0.3, 0.9]]])
    >>> match_labels(p, torch.tensor([2])), match_labels(p, torch.tensor([2]), "first-n")
    (tensor([[-1,  0,  1]]), tensor([[ 1,  0, -1]]))
    """
    values: NDArray[np.float32] = probabilities.detach().cpu().numpy()
    if not np.isfinite(values).all():
        raise InputError(
            "logits must be finite", given="NaN or infinity", hint="Try a lower learning_rate or clip=1."
        )
    found = np.full(values.shape[:2], -1, dtype=np.int64)
    for row, size in enumerate(sizes.tolist()):
        steps = values.shape[1] if scheme == "all" else size
        chosen, labels = linear_sum_assignment(values[row, :steps, :size], maximize=True)
        found[row, chosen] = labels
    return torch.from_numpy(found).to(probabilities.device)


# SECTION neural.set_loss_transport
# Optimal transport between the steps of a decoder and the labels of a row, a whole batch at once.
#
# In: costs (rows, steps, labels) and masks of what is real. Out: one transport plan per row, by IPOT (Xie et al. 2020):
# the proximal point method with one scaling of rows and columns per iteration.
#
# Decisions
# ---------
# * Costs are first lowered by the least cost of each step and then of each label. Scalings absorb that, so the plan is
#   the same, but each real step and label keeps an entry of 1 in exp(-cost / beta): nothing vanishes in float32.
# * The last iterate has exact sums over steps and nearly exact ones over labels. What is missing is filled in by the
#   rounding of Altschuler et al. (2017), so the plan has both marginals up to rounding errors.
# * The batch is the last axis while it iterates: sums over steps and over labels then add whole vectors of rows.
# * The iterate is kept multiplied by the scalings of the labels, which saves a pass: with R = K ∘ plan ∘ s, one
# iteration
#   is R ∘ d with d = steps' mass / row sums, then R ∘ r with r = labels' mass / column sums, s ∘ r the new s.
# * Padding has mass 0 and cost 0; a plan does not depend on it or on the other rows of the batch.


SMALLEST = 1e-30  # far below any mass that counts, far above what float32 cannot hold
LOWEST_BETA = 0.05  # scalings reach exp(2 / beta), and their squares must be floats


def transport_plan(
    costs: torch.Tensor,
    real_labels: torch.Tensor,
    real_steps: torch.Tensor | None = None,
    *,
    beta: float = 0.5,
    iterations: int = 50,
) -> torch.Tensor:
    """Return the plans that carry equal masses of the steps to equal masses of the labels at the least cost.

    Parameters
    ----------
    costs
        (rows, steps, labels), from 0 to 2. No gradient is recorded.
    real_labels
        (rows, labels), True for a label and False for padding; one or more labels in each row.
    real_steps
        (rows, steps), or None where all are real.
    beta
        Step of the proximal point method, at least 0.05: smaller ones come nearer to the optimum per iteration.
    iterations
        How many; 50 with ``beta=0.5`` cost about 0.5 % more than the optimum.

    Returns
    -------
    (rows, steps, labels) plans: every real step sums to 1 / (its row's steps), every real label to 1 / (its row's
    labels), padding is 0.

    Examples
    --------
    >>> costs = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    >>> transport_plan(costs, torch.tensor([[True, True]])).round(decimals=3)
    tensor([[[0.5000, 0.0000],
             [0.0000, 0.5000]]])
    """
    with torch.no_grad():
        by_row = costs.permute(1, 2, 0).contiguous()
        step_mass = _masses(real_steps, by_row[:, 0])[:, None]
        label_mass = _masses(real_labels, by_row[0])[None]
        plan = _iterate(_kernel(by_row, step_mass, label_mass, beta), step_mass, label_mass, iterations)
        return _round(plan, step_mass, label_mass).permute(2, 0, 1).contiguous()


def _masses(real: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """Return equal masses of what is real, (steps or labels, rows), summing to 1 in each row."""
    masses = torch.ones_like(like) if real is None else real.T.to(like.dtype)
    return masses / masses.sum(dim=0).clamp_min(1.0)


def _kernel(
    costs: torch.Tensor, step_mass: torch.Tensor, label_mass: torch.Tensor, beta: float
) -> torch.Tensor:
    """Return exp(-lowered costs / beta), 0 at padding."""
    lowered = costs.masked_fill((step_mass <= 0) | (label_mass <= 0), torch.inf)
    lowered -= lowered.amin(dim=1, keepdim=True).masked_fill(step_mass <= 0, 0.0)
    lowered -= lowered.amin(dim=0, keepdim=True).masked_fill(label_mass <= 0, 0.0)
    return lowered.div_(-beta).exp_()


def _iterate(
    kernel: torch.Tensor, step_mass: torch.Tensor, label_mass: torch.Tensor, iterations: int
) -> torch.Tensor:
    """Return the plan after the iterations; its sums over the steps are exact."""
    scaling = label_mass
    plan = kernel * scaling
    for left in reversed(range(iterations)):
        plan *= step_mass / plan.sum(dim=1, keepdim=True).clamp_min_(SMALLEST)
        change = label_mass / plan.sum(dim=0, keepdim=True).clamp_min_(SMALLEST)
        if left:
            scaling = scaling * change
            plan *= change * scaling
            plan *= kernel
        else:
            plan *= change
    return plan


def _round(plan: torch.Tensor, step_mass: torch.Tensor, label_mass: torch.Tensor) -> torch.Tensor:
    """Return the plan with exact marginals: cut what is too much, then spread what is missing."""
    plan *= (step_mass / plan.sum(dim=1, keepdim=True).clamp_min_(SMALLEST)).clamp_max_(1.0)
    plan *= (label_mass / plan.sum(dim=0, keepdim=True).clamp_min_(SMALLEST)).clamp_max_(1.0)
    steps_miss = (step_mass - plan.sum(dim=1, keepdim=True)).clamp_min_(0.0)
    labels_miss = (label_mass - plan.sum(dim=0, keepdim=True)).clamp_min_(0.0)
    share = labels_miss / labels_miss.sum(dim=1, keepdim=True).clamp_min_(SMALLEST)
    return plan.addcmul_(steps_miss, share)


# SECTION neural.set_loss_function
# The autograd function behind `set_loss`: matching, transport and the gradient of both, on checked inputs.
#
# In: logits (rows, steps, outputs), embeddings of the outputs (of all rows, or of each row its own) or None, targets
# padded with -1. Out: the loss, and its two parts as numbers. `set_loss` has the formulas.


SHORTEST = 1e-8  # vectors shorter than this count as this long in a cosine
LEAST_SURE = 1e-30  # probabilities below are not exact enough for a logarithm


class SetLossFunction(torch.autograd.Function):
    """L_b / divisor + λ L_ot, and its gradient for logits and embeddings."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        vectors: torch.Tensor | None,
        targets: torch.Tensor,
        empty: int,
        options: SetLossOptions,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss and its two parts; keep what the gradient needs."""
        n_rows = max(1, logits.shape[0])
        p = torch.softmax(logits, dim=2)
        wanted, weights = _assign(p, targets, empty, options)
        weights = weights / (n_rows * options.divisor)
        matching = -(weights * _log_probabilities(p, logits, wanted)).sum()
        if vectors is None:
            transport, flow = matching.new_zeros(()), None
            ctx.save_for_backward(p, wanted, weights)
        else:
            real_steps = wanted != empty if options.steps == "matched" else None
            transport, flow = _transport(p, vectors, targets, real_steps, options)
            transport = transport / n_rows
            scale = options.ot_weight / n_rows
            ctx.save_for_backward(
                p, wanted, weights, vectors, flow.to_q * scale, flow.q, flow.to_labels * scale, targets
            )
        parts = torch.stack([matching, transport])
        ctx.mark_non_differentiable(parts)
        return matching + options.ot_weight * transport, parts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients for logits and embeddings."""
        p, wanted, weights, *rest = ctx.saved_tensors
        weights = weights * gradient
        for_vectors = None
        if rest:
            vectors, to_q, q, to_labels, targets = rest
            to_q = to_q * gradient
            for_logits = _spread(to_q, weights - (to_q * q).sum(dim=2), vectors).mul_(p)
            if ctx.needs_input_grad[1]:
                own = _for_own_vectors if vectors.ndim == 3 else _for_vectors
                for_vectors = own(p, to_q, to_labels * gradient, targets)
        else:
            for_logits = p * weights[:, :, None]
        for_logits.scatter_add_(2, wanted[:, :, None], -weights[:, :, None])
        return for_logits, for_vectors, None, None, None


@dataclass(frozen=True)
class Flow:
    """What the gradient of the transport needs: q, dL_ot/dq and dL_ot/dE[label] of each row's labels."""

    q: torch.Tensor
    to_q: torch.Tensor
    to_labels: torch.Tensor


def _assign(
    p: torch.Tensor, targets: torch.Tensor, empty: int, options: SetLossOptions
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output that each step is to say, and the step's weight."""
    real = targets >= 0
    order = torch.argsort(real.to(torch.int8), dim=1, descending=True, stable=True)  # padding goes last
    labels = targets.gather(1, order)
    columns = labels.clamp_min(0)[:, None, :].expand(-1, p.shape[1], -1)
    places = match_labels(p.gather(2, columns), real.sum(dim=1), options.scheme)
    said = labels.gather(1, places.clamp_min(0))
    wanted = torch.where(places >= 0, said, empty)
    weights = p.new_full(wanted.shape, options.empty_weight).masked_fill_(places >= 0, 1.0)
    return wanted, weights


def _log_probabilities(p: torch.Tensor, logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return ln p of the wanted outputs; steps where p is nearly 0 are computed anew from the logits."""
    chosen = p.gather(2, wanted[:, :, None])[:, :, 0]
    found = chosen.clamp_min(LEAST_SURE).log()
    unsure = chosen < LEAST_SURE
    if unsure.any():
        few = logits[unsure]
        exact = few.gather(1, wanted[unsure][:, None])[:, 0] - torch.logsumexp(few, dim=1)
        found[unsure] = exact
    return found


def _transport(
    p: torch.Tensor,
    vectors: torch.Tensor,
    targets: torch.Tensor,
    real_steps: torch.Tensor | None,
    options: SetLossOptions,
) -> tuple[torch.Tensor, Flow]:
    """Return the cost of the plans of all rows (Eq. 14 to 16), and its gradient."""
    q = p @ vectors
    labels = _label_vectors(vectors, targets)
    q_length, label_length = (x.norm(dim=2, keepdim=True) for x in (q, labels))
    q_unit, label_unit = q / q_length.clamp_min(SHORTEST), labels / label_length.clamp_min(SHORTEST)
    cosines = torch.bmm(q_unit, label_unit.transpose(1, 2))
    real = targets >= 0
    plan = transport_plan(1.0 - cosines, real, real_steps, beta=options.beta, iterations=options.iterations)
    agreed = plan * cosines
    total = plan.sum() - agreed.sum()
    along_q = agreed.sum(dim=2, keepdim=True) * q_unit * (q_length > SHORTEST)
    to_q = (along_q - torch.bmm(plan, label_unit)) / q_length.clamp_min(SHORTEST)
    along_labels = agreed.sum(dim=1)[:, :, None] * label_unit * (label_length > SHORTEST)
    to_labels = (along_labels - torch.bmm(plan.transpose(1, 2), q_unit)) / label_length.clamp_min(SHORTEST)
    return total, Flow(q, to_q, to_labels)


def _label_vectors(vectors: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the embeddings of each row's labels; those of padding are any."""
    columns = targets.clamp_min(0)
    if vectors.ndim == 2:
        return vectors[columns]
    return vectors.gather(1, columns[:, :, None].expand(-1, -1, vectors.shape[2]))


def _spread(to_q: torch.Tensor, weights: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Return E u + weights: one matrix product, the weights being a column of their own."""
    left = torch.cat([to_q, weights[:, :, None]], dim=2)
    right = torch.cat([vectors, vectors.new_ones(*vectors.shape[:-1], 1)], dim=-1)
    return left @ right.transpose(-1, -2)


def _for_vectors(
    p: torch.Tensor, to_q: torch.Tensor, to_labels: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Return the gradient for the embeddings: through every q, and as the labels that q is compared with."""
    found = p.flatten(0, 1).T @ to_q.flatten(0, 1)
    real = targets >= 0
    return found.index_add_(0, targets[real], to_labels[real])


def _for_own_vectors(
    p: torch.Tensor, to_q: torch.Tensor, to_labels: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Return the same where each row has embeddings of its own."""
    found = torch.bmm(p.transpose(1, 2), to_q)
    columns = targets.clamp_min(0)[:, :, None].expand(-1, -1, to_q.shape[2])
    return found.scatter_add_(1, columns, to_labels * (targets >= 0)[:, :, None])


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
