"""Hidden states of minilm for all texts of the PRIME experiment, cached in build/: each text is encoded once.

``python -m experiments.prime.states tibkat-gnd-en`` fills the cache of a set beforehand (ten minutes on one core); the
experiment fills what is missing.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from benchmarks import ROOT
from experiments.prime.data import SIZES, LabelledTexts, read_set
from tagwood import TextEncoder
from tagwood.neural.encoders.modules import StateMemory
from tagwood.neural.encoders.tokens import TokenRows

KEPT = ROOT / "build" / "prime"
TOKENS = 64  # of a text
_BLOCK = 10_000  # texts between two writings of the file


class KeptStates(StateMemory):
    """A memory that is kept in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        if path.exists():
            with np.load(path) as file:
                rows = TokenRows(file["ids"], file["indptr"])
                self.states(rows, lambda new: file["states"])

    def write(self) -> None:
        """Write all states to the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = TokenRows.of([np.frombuffer(key, dtype=np.int32) for key in self._states])
        np.savez(self.path, ids=rows.ids, indptr=rows.indptr, states=np.stack(list(self._states.values())))


def kept_minilm(name: str, seed: int) -> TextEncoder:
    """Return the encoder minilm with a head, which remembers the texts of a set."""
    encoder = TextEncoder("minilm", trained="head", max_length=TOKENS, seed=seed, threads=1).fit([])
    encoder.memory = _memory(name)
    return encoder


@lru_cache(maxsize=1)
def _memory(name: str) -> KeptStates:
    return KeptStates(KEPT / f"minilm_{name}.npz")


def fill(name: str, data: LabelledTexts) -> int:
    """Embed all texts of a set that are not in its file yet, and return how many there are."""
    encoder, memory = kept_minilm(name, 0), _memory(name)
    texts = [*data.label_texts, *data.test_texts, *data.texts]
    known = len(memory)
    for at in range(0, len(texts), _BLOCK):
        encoder.inputs(texts[at : at + _BLOCK])
        if len(memory) > known:
            memory.write()
            known = len(memory)
    return known


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", choices=list(SIZES))
    parser.add_argument("--rows", type=int, help="training rows; default: those of the experiment")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.data:
        print(name, fill(name, read_set(name, args.rows)), flush=True)


if __name__ == "__main__":
    main()
