"""How a `SetGenerator` is stored: weights of its network, its words and, if it has one, its candidate tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_int
from tagwood.errors import InputError
from tagwood.features.word_sequences import WordSequences
from tagwood.neural.module_state import load_arrays, module_arrays
from tagwood.neural.set_candidates import CandidateTree
from tagwood.neural.set_network import SetNetwork
from tagwood.neural.set_params import SetParams
from tagwood.storage import State

_CUTS = "size_cuts"


def network_state(
    init: dict[str, Any],
    numbers: dict[str, int],
    network: SetNetwork,
    words: WordSequences,
    source: CandidateTree | None,
    size_cuts: NDArray[np.float64] | None,
) -> State:
    """Return the stored form."""
    arrays = module_arrays(network)
    if size_cuts is not None:
        arrays[_CUTS] = size_cuts
    params = {"init": init, **numbers, "dimension": network.sizes.dimension}
    parts = {"words": words.state()}
    if source is not None:
        parts["candidates"] = source.state()
    return State("SetGenerator", params=params, arrays=arrays, parts=parts)


def restored_network(
    params: SetParams, state: State
) -> tuple[SetNetwork, WordSequences, CandidateTree | None]:
    """Return network, words and candidate tree of a stored generator, in evaluation mode."""
    n_labels = check_int(state.param("n_labels", int), "n_labels", low=1)
    dimension = check_int(state.param("dimension", int), "dimension", low=1)
    words = WordSequences.from_state(state.part("words"))
    network = SetNetwork(params._sizes(words.n_words, n_labels, dimension))
    load_arrays(network, state)
    source = CandidateTree.from_state(state.part("candidates")) if "candidates" in state.parts else None
    network.eval()
    return network, words, source


def restored_cuts(state: State, n_steps: int) -> NDArray[np.float64] | None:
    """Return the cuts of a stored generator whose sizes were learned, or None."""
    if _CUTS not in state.arrays:
        return None
    cuts: NDArray[np.float64] = state.array(_CUTS, np.float64, (n_steps,))
    if not bool(np.all(np.diff(cuts) >= 0)):
        raise InputError("size_cuts must rise", given="cuts that fall")
    return cuts
