"""Train set generators for many steps on extreme rows, and look at every loss and weight: none may be NaN or infinite.

Rows are drawn at random: empty texts, texts of one word and of 400, words never seen again, sets of one label and of
as many labels as the decoder has steps. The training loop stops at the first loss that is not finite.

    python experiments/set_generator_steps.py            # 10,000 steps of OTSeq2Set, 2,000 of each other kind
    python experiments/set_generator_steps.py --steps 500
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from tagwood import SetGenerator

N_LABELS, LARGEST, BATCH = 40, 12, 4
KINDS = {
    "otseq2set, all": {"kind": "otseq2set", "scheme": "all"},
    "otseq2set, first-n": {"kind": "otseq2set", "scheme": "first-n"},
    "otseq2set, candidates": {"kind": "otseq2set", "output": "candidates", "candidates": 5},
    "seq2seq": {"kind": "seq2seq"},
    "mlc2seq": {"kind": "mlc2seq"},
    "sgm": {"kind": "sgm"},
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


def check(name: str, n_steps: int, rate: float) -> str:
    """Train one kind; return a line about it."""
    epochs = 10
    texts, sets = draw_rows(max(1, n_steps // epochs) * BATCH, seed=len(name))
    model = SetGenerator(
        **KINDS[name],
        hidden=16,
        layers=1,
        dimension=8,
        epochs=epochs,
        batch_size=BATCH,
        learning_rate=rate,
        threads=1,
    )
    begin = time.process_time()
    model.fit(texts, sets)
    assert model.history_ is not None
    finite = all(bool(torch.isfinite(weight).all()) for weight in model.module_.parameters())
    finite &= bool(np.isfinite(model.history_.losses).all())
    finite &= bool(np.isfinite(model.rank(texts[:200], k=N_LABELS).scores).all())
    state = "all finite" if finite else "NOT FINITE"
    losses = f"loss {model.history_.losses[0]:.3g} -> {model.history_.losses[-1]:.3g}"
    seconds = time.process_time() - begin
    return f"{name}, rate {rate:g}: {model.history_.steps:,} steps, {losses}, {state}, {seconds:.0f} s"


def main() -> None:
    """Check every kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000, help="of OTSeq2Set, both schemes together")
    steps = parser.parse_args().steps
    for name in KINDS:
        share = steps // 2 if name in ("otseq2set, all", "otseq2set, first-n") else steps // 5
        print(check(name, share, 0.05 if "all" in name else 0.005), flush=True)


if __name__ == "__main__":
    main()
