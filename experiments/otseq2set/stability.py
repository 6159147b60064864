"""Train set generators for many steps on extreme rows: ``python -m experiments.otseq2set.stability``.

Rows are random: empty texts, texts of one word and of 400, words never seen again, sets of one label and of as many
labels as the decoder has steps. Every loss, weight and score must be finite. Results go to set_generator_steps.json,
which the page of the OTSeq2Set experiment shows if it is in the same folder.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from benchmarks.report import replace_row
from experiments.otseq2set.page import STABILITY
from tagwood.neural.otseq2set import NetworkSettings, SetGenerator, SetTraining

N_LABELS, LARGEST, BATCH = 40, 12, 4
# Settings, share of --steps, learning rate.
KINDS: dict[str, tuple[dict[str, Any], float, float]] = {
    "otseq2set, all": ({"kind": "otseq2set", "loss__scheme": "all"}, 0.5, 0.05),
    "otseq2set, first-n": ({"kind": "otseq2set", "loss__scheme": "first-n"}, 0.5, 0.005),
    "otseq2set, ∅ free in the transport": (
        {"kind": "otseq2set", "loss__transport_empty": "free"},
        0.05,
        0.05,
    ),
    "otseq2set, candidates": (
        {"kind": "otseq2set", "decoding__output": "candidates", "decoding__candidates": 5},
        0.05,
        0.005,
    ),
    "seq2seq": ({"kind": "seq2seq"}, 0.05, 0.005),
    "mlc2seq": ({"kind": "mlc2seq"}, 0.05, 0.05),
    "sgm": ({"kind": "sgm"}, 0.05, 0.005),
}


def draw_rows(n_rows: int, seed: int) -> tuple[list[str], list[list[int]]]:
    """Return extreme texts and label sets."""
    rng = np.random.default_rng(seed)
    texts, sets = [], []
    for _ in range(n_rows):
        n_words = int(rng.choice([0, 1, 2, 30, 400], p=[0.2, 0.3, 0.3, 0.17, 0.03]))
        alphabet = 10 if rng.random() < 0.5 else 10**9
        texts.append(" ".join(f"word{number}" for number in rng.integers(0, alphabet, n_words)))
        size = int(rng.choice([1, 2, LARGEST], p=[0.5, 0.3, 0.2]))
        sets.append(sorted(rng.choice(N_LABELS, size, replace=False).tolist()))
    return texts, sets


def check(name: str, steps: int) -> dict[str, Any]:
    """Train one kind and return the result."""
    epochs = 10
    options, share, rate = KINDS[name]
    texts, sets = draw_rows(max(1, round(share * steps) // epochs) * BATCH, seed=len(name))
    model = SetGenerator(
        network=NetworkSettings(hidden=16, layers=1, dimension=8),
        training=SetTraining(epochs=epochs, batch_size=BATCH, learning_rate=rate),
        threads=1,
    ).set_params(**options)
    model.fit(texts, sets)
    assert model.history_ is not None
    finite = all(bool(torch.isfinite(weight).all()) for weight in model.module_.parameters())
    finite &= bool(np.isfinite(model.history_.losses).all())
    finite &= bool(np.isfinite(model.rank(texts[:200], k=N_LABELS).scores).all())
    losses = [float(f"{model.history_.losses[place]:.3g}") for place in (0, -1)]
    return {"kind": name, "rate": rate, "steps": model.history_.steps, "losses": losses, "finite": finite}


def main() -> None:
    parser = STABILITY.parser(__doc__, quick=True)
    parser.add_argument("--steps", type=int, default=10_000, help="of the first two kinds together")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS), metavar="KIND")
    args = parser.parse_args()
    for name in args.kinds:
        row = check(name, 2_000 if args.quick else args.steps)
        print(json.dumps(row, ensure_ascii=False), flush=True)
        STABILITY.save(args.out, replace_row(STABILITY.load(args.out, []), row, ["kind"]))


if __name__ == "__main__":
    main()
