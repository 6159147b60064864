"""A label table as a `State` and back, so that it lies in the model folder; memory-mapped like all arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood.data.strings import StringTable
from tagwood.data.vocab import LabelVocab
from tagwood.storage import State


def vocab_state(vocab: LabelVocab) -> State:
    """Return the stored form of a label table."""
    codes = list(vocab.languages)
    tables = {"names": vocab.names, "uris": vocab.uris}
    tables |= {f"language_{number}": vocab.languages[code] for number, code in enumerate(codes)}
    arrays: dict[str, NDArray[Any]] = {}
    for name, table in tables.items():
        if table is not None:
            arrays |= {f"{name}_blob": np.asarray(table.blob), f"{name}_offsets": np.asarray(table.offsets)}
    if vocab.removed is not None:
        arrays["removed"] = vocab.removed
    return State("LabelVocab", params={"size": vocab.size, "languages": codes}, arrays=arrays)


def vocab_from_state(state: State) -> LabelVocab:
    """Rebuild a label table."""
    size = state.param("size", int)

    def table(name: str) -> StringTable | None:
        if f"{name}_blob" not in state.arrays:
            return None
        blob = state.array(f"{name}_blob", np.uint8, (None,))
        return StringTable(blob, state.array(f"{name}_offsets", np.int64, (size + 1,)))

    languages = {
        str(code): found
        for number, code in enumerate(state.param("languages", list))
        if (found := table(f"language_{number}")) is not None
    }
    removed = state.array("removed", np.bool_, (size,)) if "removed" in state.arrays else None
    return LabelVocab(size, table("names"), table("uris"), languages, removed)
