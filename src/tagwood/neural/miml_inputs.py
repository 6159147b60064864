"""What `MimlNetwork.fit` is given, checked and brought into the form of the training loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from tagwood._sparse import check_features
from tagwood.errors import InputError
from tagwood.groups.grouped_labels import GroupedLabels
from tagwood.models.tree_inputs import check_training_data
from tagwood.neural.group_batches import GroupRows
from tagwood.neural.training import Rows, Step


def check_groups(
    X: Any, Y: Any, groups: Any
) -> tuple[sparse.csr_array, sparse.csr_array, sparse.csr_array | None]:
    """Return features, labels of groups and membership in groups, or raise `InputError`; no groups stay None."""
    if groups is None:
        parts, labels = check_training_data(X, Y)
        return parts.to_scipy(), labels, None
    features = check_features(X)
    grouped = GroupedLabels(groups, Y)
    if grouped.n_rows != features.shape[0]:
        raise InputError(
            f"groups must have one row for each of the {features.shape[0]:,} rows of X",
            given=f"{grouped.n_rows:,} rows",
        )
    if min(features.shape) == 0 or grouped.group_labels.nnz == 0 or grouped.sample_groups.nnz == 0:
        raise InputError(
            "there must be rows with features, groups with rows, and groups with labels",
            given=f"{features.shape[0]:,} rows in {grouped.n_groups:,} groups, {grouped.group_labels.nnz:,} labels",
        )
    return features, grouped.group_labels, grouped.sample_groups


def group_loss(data: GroupRows, labels: sparse.csr_array, filled: NDArray[np.int64], device: str) -> Step:
    """Return the loss of some of the groups that have rows."""

    def step(module: nn.Module, rows: Rows) -> torch.Tensor:
        groups = filled[rows]
        wanted = torch.from_numpy(labels[groups].toarray().astype(np.float32)).to(device)
        return nn.functional.binary_cross_entropy_with_logits(module(data.batch(groups, device)), wanted)

    return step
