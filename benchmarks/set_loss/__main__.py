"""The loss on label sets in batches against row by row: ``python -m benchmarks.set_loss`` (three minutes, one thread).

Batches of 32 and 64 rows, 24 and 57 steps
(the largest sets of Eurlex-4K and AmazonCat-13K), 4,000 labels, embeddings of 300 numbers. Compared runs take
turns for some seconds per point; the fastest of each counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch.nn.utils.rnn import pad_sequence

from benchmarks.measure import fastest
from benchmarks.report import Page, machine, machine_line, number, table
from benchmarks.set_loss.loops import floor, loop_loss, loop_plans, numpy_plans
from tagwood.neural.otseq2set.loss import SetLossOptions, match_labels, set_loss, transport_plan
from tagwood.neural.otseq2set.network import SetNetwork, Words
from tagwood.neural.otseq2set.settings import NetworkSettings
from tagwood.neural.otseq2set.training import student_logits

PAGE = Page("benchmarks", "set_loss")
SHAPES = [(32, 24), (32, 57), (64, 24), (64, 57)]
N_LABELS, DIMS = 4_000, 300
SECONDS = {"plans": 5.0, "loss": 14.0, "matching": 1.0, "step": 24.0}  # of one point
TURNS = (2, 40)  # fewest and most runs of a job


def draw_sizes(kind: str, rows: int, steps: int, rng: np.random.Generator) -> list[int]:
    """Return numbers of labels: about 5.3 as in Eurlex-4K, or evenly from 1 to the number of steps."""
    drawn = rng.poisson(5.3, rows) if kind == "about 5" else rng.integers(1, steps + 1, rows)
    return np.clip(drawn, 1, steps).tolist()


def measure_plans(rows: int, steps: int, kind: str, seconds: float) -> dict[str, Any]:
    """Return times of all plans of a batch: at once, and row by row."""
    rng = np.random.default_rng(0)
    sizes = draw_sizes(kind, rows, steps, rng)
    left = torch.nn.functional.normalize(torch.from_numpy(rng.standard_normal((rows, steps, 100))).float(), dim=2)
    right = torch.nn.functional.normalize(torch.from_numpy(rng.standard_normal((rows, max(sizes), 100))).float(), dim=2)
    costs = 1.0 - left @ right.transpose(1, 2)
    real = torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]
    table = costs.numpy()
    times = fastest(
        {
            "batch": lambda: transport_plan(costs, real),
            "loop": lambda: loop_plans(costs, sizes),
            "numpy": lambda: numpy_plans(table, sizes),
        },
        TURNS,
        seconds,
    )
    batch, plain = transport_plan(costs, real), loop_plans(costs, sizes)
    own = [transport_plan(costs[i : i + 1, :, :n], real[i : i + 1, :n])[0] for i, n in enumerate(sizes)]
    apart = [max(float((batch[i, :, :n] - o[i]).abs().max()) for i, n in enumerate(sizes)) for o in (own, plain)]
    return {
        "rows": rows, "steps": steps, "sizes": kind, **times, "difference": apart[0], "difference_plain": apart[1]
    }  # fmt: skip


def padded(labels: list[list[int]]) -> torch.Tensor:
    """Return lists of labels as one array (rows, most), padded with -1."""
    return pad_sequence([torch.tensor(row) for row in labels], batch_first=True, padding_value=-1)


def make_batch(rows: int, steps: int) -> tuple[torch.Tensor, list[list[int]], torch.Tensor]:
    """Return logits, label sets of about five labels and embeddings; ∅ is the last output."""
    rng = np.random.default_rng(1)
    random = torch.Generator().manual_seed(1)
    logits = torch.randn(rows, steps, N_LABELS + 1, generator=random).mul_(2).requires_grad_()
    sizes = draw_sizes("about 5", rows, steps, rng)
    labels = [rng.choice(N_LABELS, size, replace=False).tolist() for size in sizes]
    return logits, labels, torch.randn(N_LABELS + 1, DIMS, generator=random)


def measure_loss(rows: int, steps: int, seconds: float) -> dict[str, Any]:
    """Return times of the whole loss with its gradient: ours, the floor, row by row."""
    logits, labels, embeddings = make_batch(rows, steps)
    gradient = torch.randn(rows, steps, DIMS, generator=torch.Generator().manual_seed(2))
    targets, options = padded(labels), SetLossOptions()

    def clean(work: Callable[[], object]) -> Callable[[], None]:
        def job() -> None:
            logits.grad = None
            work()

        return job

    jobs = {
        "floor": clean(lambda: floor(logits, embeddings, gradient)),
        "ours": clean(lambda: set_loss(logits, targets, embeddings, empty=N_LABELS, options=options).backward()),
        "loop": clean(lambda: loop_loss(logits, labels, embeddings, N_LABELS).backward()),
    }
    times = fastest(jobs, TURNS, seconds)
    grads = []
    for name in ("ours", "loop"):
        jobs[name]()
        grads.append(logits.grad.clone())
    return {"rows": rows, "steps": steps, **times, "difference": float((grads[0] - grads[1]).abs().max())}


def measure_matching(rows: int, steps: int, seconds: float) -> dict[str, Any]:
    """Return times of the matching of a batch: in a plain loop, and in two threads."""
    logits, labels, _ = make_batch(rows, steps)
    p = torch.softmax(logits.detach(), dim=2)
    sizes = [len(own) for own in labels]
    own = torch.stack([p[i][:, padded(labels)[i].clamp_min(0)] for i in range(rows)])
    table, counts = own.numpy(), torch.tensor(sizes)

    def one(row: int) -> object:
        return linear_sum_assignment(table[row, :, : sizes[row]], maximize=True)

    with ThreadPoolExecutor(2) as pool:
        times = fastest(
            {
                "loop": lambda: match_labels(own, counts),
                "threads": lambda: list(pool.map(one, range(rows), chunksize=rows // 2)),
            },
            TURNS,
            seconds,
        )
    return {"rows": rows, "steps": steps, **times}


def measure_step(rows: int, steps: int, words: int, hidden: int, seconds: float) -> dict[str, Any]:
    """Return the time of a whole training step of the network, and of the loss with its gradient inside it."""
    rng = np.random.default_rng(3)
    network = SetNetwork(20_000, N_LABELS, DIMS, NetworkSettings(hidden=hidden))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)
    _, labels, _ = make_batch(rows, steps)
    targets = padded(labels)
    texts = Words(torch.from_numpy(rng.integers(2, 20_000, (rows, words))), torch.full((rows,), words))
    vectors = network.labels.weight[:-1].detach()
    best = {"ours": float("inf"), "loop": float("inf")}

    def step(name: str) -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = student_logits(network, network(texts), steps)
        leaf = logits.detach().requires_grad_()
        start = time.perf_counter()
        loss = (
            set_loss(leaf, targets, vectors, empty=N_LABELS, options=SetLossOptions())
            if name == "ours"
            else loop_loss(leaf, labels, vectors, N_LABELS)
        )
        loss.backward()
        best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
        logits.backward(leaf.grad)
        optimizer.step()

    found: dict[str, Any] = {"rows": rows, "steps": steps, "words": words, "hidden": hidden}
    times = fastest({name: lambda name=name: step(name) for name in best}, TURNS, seconds)
    for name, whole in times.items():
        found |= {f"{name}_step": whole, f"{name}_loss": best[name], f"{name}_share": best[name] / whole}
    return found


def measure(scale: float) -> dict[str, Any]:
    """Return all measures; `scale` is a factor of the seconds spent on each point."""
    seconds = {what: scale * value for what, value in SECONDS.items()}
    result: dict[str, Any] = {"machine": machine(), "torch": torch.__version__, "threads": 1}
    result["plans"] = [
        measure_plans(*shape, kind, seconds["plans"]) for kind in ("about 5", "1 to steps") for shape in SHAPES
    ]
    result["loss"] = [measure_loss(*shape, seconds["loss"]) for shape in SHAPES]
    result["matching"] = [measure_matching(*shape, seconds["matching"]) for shape in SHAPES]
    result["step"] = [
        measure_step(rows, 24, words, hidden, seconds["step"])
        for rows, words, hidden in ((32, 200, 256), (64, 200, 256), (32, 400, 512))
    ]
    return result


def page_blocks(result: dict[str, Any]) -> Iterator[str]:
    """Yield a table per part."""

    def rows(part: str, cells: Callable[[dict[str, Any]], list[str]]) -> list[list[str]]:
        return [[f"{r['rows']} × {r['steps']}", *cells(r)] for r in result[part]]

    yield f"{machine_line(result['machine'])} torch {result['torch']}, one thread."
    yield "## Transport plans"
    yield (
        "IPOT, β = 0.5, 50 iterations. The first difference is between plans of a batch and those of its rows alone, "
        "the second from the plain loop, whose column sums are not yet exact after 50 iterations (ours are completed)."
    )
    yield table(
        ["rows × steps", "labels per row", "batch", "torch loop", "NumPy loop", "× torch", "× NumPy", "difference",
         "from the plain loop"],
        rows("plans", lambda r: [
            r["sizes"], *(number(r[k]) for k in ("batch", "loop", "numpy")), f"{r['loop'] / r['batch']:.1f}",
            f"{r['numpy'] / r['batch']:.1f}", f"{r['difference']:.0e}", f"{r['difference_plain']:.0e}"]),
    )  # fmt: skip
    yield "## Whole loss and its gradient"
    yield (
        "The floor is softmax and P·E, forward and backward. The loop computes both for the whole batch, the rest row "
        "by row with autograd. The difference is the largest one between the gradients."
    )
    yield table(
        ["rows × steps", "floor", "ours", "loop", "ours / floor", "loop / ours", "difference"],
        rows("loss", lambda r: [
            *(number(r[k]) for k in ("floor", "ours", "loop")), f"{r['ours'] / r['floor']:.2f}",
            f"{r['loop'] / r['ours']:.2f}", f"{r['difference']:.0e}"]),
    )  # fmt: skip
    yield "## Matching"
    matching = rows("matching", lambda r: [number(r["loop"], 2), number(r["threads"], 2)])
    yield table(["rows × steps", "plain loop", "two threads"], matching)
    yield "## Share of a training step"
    yield "A step of the network (2 layers of bi-GRU, LightConv, student forcing, Adam), and the loss in it."
    yield table(
        ["rows × steps", "words", "hidden", "step", "of it loss", "step, loop", "of it loss", "share", "share, loop"],
        rows("step", lambda r: [
            str(r["words"]), str(r["hidden"]),
            *(number(r[f"{n}_{k}"]) for n in ("ours", "loop") for k in ("step", "loss")),
            f"{r['ours_share']:.0%}", f"{r['loop_share']:.0%}"]),
    )  # fmt: skip


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the seconds spent on each point")
    args = parser.parse_args()
    torch.set_num_threads(1)
    result = measure(args.scale)
    PAGE.save(args.out, result)
    PAGE.write(args.out, page_blocks(result))


if __name__ == "__main__":
    main()
