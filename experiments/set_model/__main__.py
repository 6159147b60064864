"""A set model over the fused candidates of a text, against ``promise="f1"`` without it.

``python -m experiments.set_model --in-tagger`` measures what a Tagger uses: boosted trees that read other candidates
of a row. ``python -m experiments.set_model`` measures a network that does so, on three sets or those of ``--data``.
Results in the output folder are kept; ``--fresh`` measures them again.

An ensemble of tree, neighbours and names proposes 30 labels a row with probabilities. A network of two attention layers
over the candidates changes these probabilities; the GRU decoder of OTSeq2Set generates sets from the same inputs, as
the control. Number of epochs, weight of the transport and set rules are chosen on held-out training rows: each half is
judged by a network that learned from the other half.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.report import Page, replace_row, table
from experiments.set_model.candidates import SETS, Candidates, read_candidates
from experiments.set_model.in_tagger import measure_in_tagger, tagger_block
from experiments.set_model.network import Batch, Options, SetAttention, SetDecoder, fit
from experiments.statistics import compare_sets, micro_f1, set_counts
from tagwood.probabilities.sets import SetRule, fit_set_rule

PAGE = Page("experiments", "set_model")
IN_TAGGER = "in a Tagger"
TRANSPORTS = (0.0, 1.0)
LEFT_OUT = ("together",)
SEEDS = 2
EPOCHS = {"attention": 6, "decoder": 6}
DECODER = Options(empty_weight=0.2, transport=0.0)
Counts = NDArray[np.int64]


def halves(n_rows: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return two pairs: rows to learn from, rows to judge on."""
    order = np.random.default_rng(0).permutation(n_rows)
    first, second = np.sort(order[: n_rows // 2]), np.sort(order[n_rows // 2 :])
    return [(first, second), (second, first)]


def by_rule(rule: SetRule, data: Candidates, probabilities: NDArray[Any] | None = None) -> Counts:
    """Return right, found and true labels of each row, of the sets that a rule makes."""
    sets = rule.apply(data.ranking(probabilities))[0].to_csr()
    return set_counts(data.truth(), sparse.csr_array(sets))


def by_choice(chosen: NDArray[np.bool_], data: Candidates) -> Counts:
    """Return right, found and true labels of each row, of chosen candidates."""
    return np.column_stack([(chosen & data.right).sum(axis=1), chosen.sum(axis=1), data.n_true])


def cross_judged(kind: str, held: Candidates, batch: Batch, options: Options) -> dict[str, Any]:
    """Return micro-F1 after each epoch and what the best one returned, each half judged by a network of the other."""
    epochs: list[NDArray[Any]] = []
    for learned, judged in halves(len(held)):
        part, found = batch.rows(judged), []

        def keep(net: SetAttention | SetDecoder, part: Batch = part, found: list[Any] = found) -> float:
            found.append(net.probabilities(part) if isinstance(net, SetAttention) else net.chosen(part))
            return float(len(found))

        fit(kind, batch.rows(learned), options, evaluate=keep)
        if not epochs:
            epochs = [np.zeros((len(held), *one.shape[1:]), dtype=one.dtype) for one in found]
        for whole, one in zip(epochs, found, strict=True):
            whole[judged] = one
    scores = [_judge(held, one) for one in epochs]
    best = int(np.argmax(scores))
    return {"epochs": best + 1, "f1": scores[best], "curve": scores, "found": epochs[best]}


def _judge(held: Candidates, found: NDArray[Any]) -> float:
    """Return the micro-F1 of sets, those by probabilities with the best threshold of the other half."""
    if found.dtype == bool:
        return micro_f1(by_choice(found, held))
    counts = np.zeros((len(held), 3), dtype=np.int64)
    for learned, judged in halves(len(held)):
        right, values = held.right[learned], found[learned]
        cuts = np.quantile(values[held.labels[learned] >= 0], np.linspace(0.5, 0.995, 80))
        total = held.n_true[learned].sum()
        f1 = [2 * right[values >= cut].sum() / ((values >= cut).sum() + total) for cut in cuts]
        chosen = found[judged] >= cuts[int(np.argmax(f1))]
        counts[judged] = by_choice(chosen & (held.labels[judged] >= 0), held.rows(judged))
    return micro_f1(counts)


def measure(name: str, out: Path, quick: bool) -> None:
    """Measure a set whose results are missing."""
    if not PAGE.missing(PAGE.load(out, {}), name):
        return
    began = time.process_time()
    held, test = read_candidates(name, quick)
    n_epochs, n_seeds = ({"attention": 2, "decoder": 2}, 1) if quick else (EPOCHS, SEEDS)
    plain = fit_set_rule("f1", held.ranking(), held.truth())
    base = by_rule(plain, test)
    found: dict[str, Any] = {"sizes": [len(held), len(test), len(held.vectors)], "rows": {}}
    found["rows"]["without"] = {**facts([base]), "held": _judge(held, held.probabilities)}
    full = Batch(held)
    tried = {
        transport: cross_judged("attention", held, full, Options(transport=transport, epochs=n_epochs["attention"]))
        for transport in TRANSPORTS
    }
    best = max(tried, key=lambda transport: tried[transport]["f1"])
    found["transports"] = {str(transport): one["f1"] for transport, one in tried.items()}
    for left_out in ((), *((one,) for one in LEFT_OUT)):
        options = Options(left_out, best, epochs=tried[best]["epochs"])
        batch = Batch(held, left_out)
        judged = tried[best] if not left_out else cross_judged("attention", held, batch, options)
        rule = fit_set_rule("f1", held.ranking(judged["found"]), held.truth())
        own = Batch(test, left_out)
        nets = [fit("attention", batch, options, seed) for seed in range(1 if left_out else n_seeds)]
        counts = [by_rule(rule, test, net.probabilities(own)) for net in nets if isinstance(net, SetAttention)]
        row = f"without {left_out[0]}" if left_out else "attention"
        found["rows"][row] = {**facts(counts, base), "held": judged["f1"], "epochs": judged["epochs"]}
        print(name, row, found["rows"][row], flush=True)
    options = replace(DECODER, epochs=n_epochs["decoder"])
    judged = cross_judged("decoder", held, full, options)
    nets = [fit("decoder", full, replace(options, epochs=judged["epochs"]), seed) for seed in range(n_seeds)]
    counts = [by_choice(net.chosen(Batch(test)), test) for net in nets if isinstance(net, SetDecoder)]
    found["rows"]["decoder"] = {**facts(counts, base), "held": judged["f1"], "epochs": judged["epochs"]}
    found["cpu_seconds"] = round(time.process_time() - began)
    print(name, found, flush=True)
    PAGE.save(out, {**PAGE.load(out, {}), name: found})


def facts(counts: list[Counts], base: Counts | None = None) -> dict[str, Any]:
    """Return measures over all seeds, and the lead over other sets of the same rows with its interval."""
    total = np.sum(counts, axis=0)
    right, size, true = total.sum(axis=0)
    one = {
        "F1": micro_f1(total),
        "P": 100 * right / max(1, size),
        "R": 100 * right / true,
        "size_error": float(np.mean([np.abs(c[:, 1] - c[:, 2]).mean() for c in counts])),
        "seeds": [micro_f1(c) for c in counts],
    }
    if base is not None:
        one["lead"] = compare_sets(base * len(counts), total)
        errors = np.mean([np.abs(c[:, 1] - c[:, 2]) for c in counts], axis=0) - np.abs(base[:, 1] - base[:, 2])
        half = 1.96 * errors.std() / np.sqrt(errors.size)
        one["size_lead"] = [float(errors.mean()), float(errors.mean() - half), float(errors.mean() + half)]
    return one


TITLES = {
    "without": '"f1" without it',
    "attention": "set model",
    "without together": "set model without co-occurrence",
    "decoder": "GRU decoder (control)",
}


def page_blocks(store: dict[str, Any]) -> list[str]:
    """Return one table per set."""
    blocks = [tagger_block(store[IN_TAGGER])] if IN_TAGGER in store else []
    for name, found in store.items():
        if name == IN_TAGGER:
            continue
        held, test, labels = found["sizes"]
        blocks.append(f"### {name}: {held:,} held-out rows to learn from, {test:,} test rows, {labels:,} labels")
        rows = []
        for row, title in TITLES.items():
            one = found["rows"][row]
            lead = "{:+.1f} ({:+.1f} to {:+.1f})".format(*one["lead"]) if "lead" in one else ""
            error = "{:+.2f} ({:+.2f} to {:+.2f})".format(*one["size_lead"]) if "size_lead" in one else ""
            seeds = ", ".join(f"{value:.1f}" for value in one["seeds"]) if len(one["seeds"]) > 1 else ""
            cells = [f"{one[m]:.1f}" for m in ("F1", "P", "R")]
            size = f"{one['size_error']:.2f}"
            rows.append([title, *cells, lead, seeds, size, error, f"{one['held']:.1f}", str(one.get("epochs", ""))])
        header = ["", "micro-F1", "P", "R", "lead (95 %)", "seeds", "size error", "difference (95 %)"]
        blocks.append(table([*header, "held-out F1", "epochs"], rows))
        tried = ", ".join(f"λ = {key}: {value:.2f}" for key, value in found["transports"].items())
        blocks.append(f"Weight of the transport, held-out micro-F1: {tried}.")
    return blocks


def main() -> None:
    parser = PAGE.parser(__doc__, quick=True, keeps=True)
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--in-tagger", action="store_true", help="measure inside a Tagger, which needs no network")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(SEEDS)), help="of --in-tagger")
    parser.add_argument("--report", action="store_true", help="only write the page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for seed in args.seeds if args.in_tagger and not args.report else []:
        for name in args.data:
            row = measure_in_tagger(name, seed, args.quick)
            store = PAGE.load(args.out, {})
            store[IN_TAGGER] = replace_row(store.get(IN_TAGGER, []), row, ["set", "seed"])
            PAGE.save(args.out, store)
    for name in [] if args.report or args.in_tagger else args.data:
        measure(name, args.out, args.quick)
    PAGE.write(args.out, page_blocks(PAGE.load(args.out, {})))


if __name__ == "__main__":
    main()
