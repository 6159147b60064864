"""The one training loop of all neural models. In: a module, batches of row numbers, a loss. Out: trained weights.

A model gives a function from row numbers to a loss; everything else is here: AdamW with warm-up and decay, clipping,
accumulation, checkpoints that go on bit for bit, early stopping, progress, and several processes.

Decisions
---------
* `batch_size` counts the rows of one step of the optimizer, over all micro-batches and processes. So the number of
  processes and `accumulate` change the speed and the memory, not the result.
* The batches of an epoch are a list of row numbers made at its start, and stored in checkpoints: a plan may depend on
  the weights of that moment.
* Random numbers are drawn from a fork of torch's generator; the caller's own one is left as it was.
"""

from tagwood.neural.training.loop import shuffled, train
from tagwood.neural.training.processes import gather_rows, run_processes, world
from tagwood.neural.training.settings import (
    Batches,
    History,
    Moment,
    Rows,
    Step,
    Training,
    in_words,
    make_optimizer,
    rate_factor,
)

__all__ = [
    "Batches",
    "History",
    "Moment",
    "Rows",
    "Step",
    "Training",
    "gather_rows",
    "in_words",
    "make_optimizer",
    "rate_factor",
    "run_processes",
    "shuffled",
    "train",
    "world",
]
