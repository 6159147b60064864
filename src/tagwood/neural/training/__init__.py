"""The training loop of all neural models. In: a module, batches of row numbers, a loss. Out: trained weights.

A model supplies a function from row numbers to a loss. The loop adds AdamW with warm-up and decay, gradient clipping,
checkpoints, early stopping, progress reports, and data-parallel steps in a `torch.distributed` process group.

Decisions
---------
* `batch_size` counts the rows of one optimizer step over all processes, so the number of processes changes the speed
  but not the result.
* The batches of an epoch are planned at its start and stored in checkpoints, because a plan may depend on the weights
  at that moment.
* Random numbers come from a fork of torch's generator; the caller's generator is left unchanged.
"""

from tagwood.neural.training.loop import make_optimizer, rate_factor, shuffled, train
from tagwood.neural.training.processes import gather_objects, gather_rows, share_of, world
from tagwood.neural.training.settings import (
    Batches,
    History,
    Rows,
    Step,
    Training,
    TrainingProgress,
    progress_lines,
)

__all__ = [
    "Batches",
    "History",
    "Rows",
    "Step",
    "Training",
    "TrainingProgress",
    "gather_objects",
    "gather_rows",
    "make_optimizer",
    "progress_lines",
    "rate_factor",
    "share_of",
    "shuffled",
    "train",
    "world",
]
