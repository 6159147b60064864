"""The check of training rows that are texts. In: texts and label sets. Out: a list and a CSR matrix, or an error.

Every model with ``takes = "texts"`` begins here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scipy import sparse

from tagwood._sparse import check_labels
from tagwood.errors import InputError
from tagwood.features.texts import check_texts


def check_text_rows(texts: Iterable[str], Y: Any) -> tuple[list[str], sparse.csr_array]:
    """Return texts and label sets that a model can be trained on."""
    rows = list(check_texts(texts))
    if not rows:
        raise InputError("texts must hold at least one text", given="none")
    labels = check_labels(Y)
    if labels.shape[0] != len(rows):
        raise InputError(
            f"Y must have one row for each of the {len(rows):,} texts", given=f"{labels.shape[0]:,} rows"
        )
    if labels.nnz == 0:
        raise InputError(
            "Y must hold at least one label", given="none", hint="Check that the label column was read."
        )
    return rows, labels
