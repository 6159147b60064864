"""Members of an `Ensemble` that learn from new rows without a full training: `update_members`.

In: fitted members, new texts or features with labels, and earlier rows. Out: the same members, updated, and the names
of those that cannot learn this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tagwood._lazy import sparse
from tagwood.features.base import Encoder
from tagwood.models.centroids import Centroids
from tagwood.models.ensemble.members import Inputs, Member
from tagwood.models.linear_tree import TreeRanker
from tagwood.models.linear_tree.training import LabelUsage
from tagwood.models.name_matcher import NameMatcher
from tagwood.models.neighbours import Neighbours


class EarlierRows(NamedTuple):
    """Rows of the last training, as texts or features, with their labels; None where there are none."""

    rows: Any
    Y: sparse.csr_array | None


def update_members(
    members: Sequence[Member],
    encoder: Encoder | None,
    X: Any,
    Y: sparse.csr_array,
    old: EarlierRows,
    usage: LabelUsage,
) -> list[str]:
    """Update members by new rows; return the names of those that stay as they are.

    Linear trees go on from their weights, `Neighbours` and `Centroids` get the rows; a `NameMatcher` learns from names
    alone and has nothing to do. Where no earlier rows can be had, trees learn the labels that they know. Members of
    other kinds stay: they have to be trained again.
    """
    stored = next((m.model for m in members if isinstance(m.model, Neighbours) and m.encoder is None), None)
    kept = stored.stored_rows() if old.rows is None and stored is not None else None
    n_labels = int(Y.shape[1])
    stay = []
    for member, rows in zip(members, Inputs.encode(members, encoder, X).of, strict=True):
        model = member.model
        if isinstance(model, TreeRanker):
            _update_tree(member, encoder, rows, Y, old, kept, usage)
        elif isinstance(model, Neighbours | Centroids):
            model.grow(n_labels).add_rows(rows, Y)
        elif not isinstance(model, NameMatcher):
            stay.append(member.name)
    return stay


def _update_tree(
    member: Member,
    encoder: Encoder | None,
    rows: Any,
    Y: sparse.csr_array,
    old: EarlierRows,
    kept: tuple[sparse.csr_array, sparse.csr_array] | None,
    usage: LabelUsage,
) -> None:
    """Update a tree, with the earlier rows that it needs: given ones, or those that another member has stored."""
    model: TreeRanker = member.model
    own = encoder if member.encoder is None else member.encoder
    if old.rows is not None and old.Y is not None:
        needed = model.rows_to_update(rows, Y, old.Y)
        some = [old.rows[row] for row in needed] if own is not None else old.rows[needed]
        features = some if own is None else own.transform(some)
        model.update(rows, Y, features, old.Y[needed], usage=usage)
    elif kept is not None and member.encoder is None:
        model.update(rows, Y, *kept, usage=usage)
    else:
        known = sparse.csr_array(Y @ sparse.diags_array(model.trained_labels(Y.shape[1]).astype(np.float32)))
        known.eliminate_zeros()
        if known.nnz:
            model.update(rows, known[:, : model.n_labels_], usage=usage)
