"""OTSeq2Set against its baselines and the linear tree: Tables 3, 5, 6, 7.

``python -m experiments.otseq2set tree search table3 chosen table5 large`` measures these parts on the sets they are
for, or those of ``--data`` (``table3:tate-subjects`` is one part on one set); earlier results are kept, so an
interrupted run continues. ``search`` tries weights on held-out rows, ``chosen`` runs the best of them with light
convolutions too, ``large`` is EURLEX57K with all labels, 10 and 25 epochs; ``time`` is Table 7 and needs a quiet
machine. ``large`` has one seed, the others three. After each epoch micro-F1 on held-out training rows decides which
weights are kept, for all models alike; settings are chosen on these rows too.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.otseq2set.data import CUTS, VECTORS, Part, TextSet, read_set, set_measures
from experiments.otseq2set.page import PAGE, page_blocks
from experiments.otseq2set.plan import MODELS, Settings, key_of, plan, title_of
from experiments.otseq2set.tree import measure_tree
from experiments.statistics import compare_sets, set_counts
from experiments.tasks import add_cluster, run_calls
from tagwood.metrics import set_scores
from tagwood.neural.otseq2set.model import SetGenerator

# One size for all models, so that a run takes half a minute.
BASE: Settings = {
    "network__hidden": 96, "network__layers": 1, "network__min_count": 1,
    "decoding__output": "full", "loss__transport_empty": "label",
    "training__epochs": 10, "training__batch_size": 64, "training__learning_rate": 4e-3, "threads": 1,
}  # fmt: skip
SMALL = ("cooking-stackexchange", "tate-subjects")
PARTS = {
    "tree": tuple(CUTS),
    "search": SMALL,
    "table3": SMALL,
    "chosen": SMALL,
    "table5": SMALL,
    "large": ("eurlex57k",),
    "time": SMALL,
}
TIMED = ("Seq2Seq", "SGM", "BM", "BM + OT + LC")
SHIFTS = np.arange(-2.0, 2.01, 0.5)


def options_of(data: TextSet, settings: Settings) -> Settings:
    """Return the parameters of a generator, by their nested names."""
    sizes = {
        "network__max_length": data.cut.words,
        "decoding__steps": data.cut.steps,
        "network__word_vectors": str(VECTORS),
    }
    return {**BASE, **sizes, **settings}


def measure_run(data: TextSet, settings: Settings, seed: int) -> dict[str, Any]:
    """Fit one model; return the held-out curve, measures on held-out and test rows, and the number of parameters."""
    model = SetGenerator(seed=seed).set_params(**options_of(data, settings))
    model.fit(
        data.train.texts,
        data.train.Y,
        label_texts=data.label_texts,
        evaluate=lambda half: set_scores(data.held.Y, half.predict(data.held.texts)).f1,
    )
    history = model.history_
    assert history is not None
    model.learn_sizes(data.held.texts, data.held.Y)
    return {
        "curve": [round(100 * value, 2) for value in history.measures],
        "losses": [round(value, 4) for value in history.losses],
        "best_epoch": history.best_epoch,
        "held": scores(model, data.held),
        "test": scores(model, data.test),
        "sized": scores(model, data.test, "learned"),
        "shifted": measure_shifted(model, data),
        "parameters": sum(weight.numel() for weight in model.module_.parameters()),
        "counts": set_counts(data.test.Y, model.predict(data.test.texts)).tolist(),
    }


def scores(model: SetGenerator, part: Part, sizes: str = "generated") -> dict[str, float]:
    """Return P, R, F1 in the averages of Tables 3 and 6 in percent, and the mean absolute error of the set size."""
    return set_measures(part.Y, model.predict(part.texts, sizes=sizes))


def measure_shifted(model: SetGenerator, data: TextSet) -> dict[str, float]:
    """Return measures on test rows where the output bias of ∅ or the end is moved by what is best on held-out rows.

    So every model has the balance of precision and recall that suits its F1.
    """
    bias = model.module_.output.bias
    before = float(bias.detach()[-1])

    def moved(shift: float) -> dict[str, float]:
        with torch.no_grad():
            bias[-1] = before + shift
        return scores(model, data.held)

    best = max(SHIFTS, key=lambda shift: moved(shift)["F1"])
    held = moved(best)
    found = {"shift": float(best), "held_F1": held["F1"], **scores(model, data.test)}
    moved(0.0)
    return found


def measure_time(data: TextSet, model: str, repeats: int = 3, epochs: int = 2) -> dict[str, float]:
    """Return the seconds of an epoch, the fastest of some fits, and the number of parameters."""
    options = {**options_of(data, MODELS[model]), "training__epochs": epochs}
    found = [SetGenerator().set_params(**options).fit(data.train.texts, data.train.Y) for _ in range(repeats)]
    seconds = min(one.history_.seconds for one in found if one.history_ is not None) / epochs
    return {"seconds": seconds, "parameters": sum(weight.numel() for weight in found[0].module_.parameters())}


def load(out: Path) -> dict[str, Any]:
    """Return the earlier results."""
    return {"runs": {}, "tree": {}, "time": {}, "sizes": {}, "rows": {}, **PAGE.load(out, {})}


def measure_part(part: str, name: str, out: Path, quick: bool, cluster: str | None) -> None:
    """Measure the missing runs of a part on a set, and store each one at once."""
    result = load(out)
    data = read_set(name, quick)
    if part in ("tree", "time"):
        if PAGE.missing(result, part, name):
            result[part][name] = measure_tree(data) if part == "tree" else {m: measure_time(data, m) for m in TIMED}
            PAGE.save(out, result)
        return
    sizes = np.diff(data.train.Y.indptr)
    result["sizes"][name] = np.bincount(sizes).tolist()
    common: Settings = {"training__epochs": 1} if quick else {}
    counts: dict[str, dict[str, Any]] = {}
    planned = plan(part, name, result["runs"], sizes, seeds=1 if quick else 3)
    missing = [one for one in planned if PAGE.missing(result, "runs", key_of(name, *one))]
    calls = [partial(measure_run, data, {**MODELS[m], **change, **common}, seed) for m, change, seed in missing]
    for place, (run, seconds) in run_calls(calls, cluster):
        key = key_of(name, *missing[place])
        model, change, _ = missing[place]
        counts.setdefault(title_of(change), {})[model] = np.array(run.pop("counts"))
        run["cpu_seconds"] = round(seconds)
        result["runs"][key] = run
        print(
            f"{key}: held {run['held']['F1']}, test {run['test']['F1']} (shifted {run['shifted']['F1']}), size error "
            f"{run['test']['size_error']}, learned {run['sized']['size_error']}, {run['cpu_seconds']} s",
            flush=True,
        )
        PAGE.save(out, result)
    if part == "large":
        result["rows"].setdefault(name, {}).update(differences(counts))
        PAGE.save(out, result)


def differences(counts: dict[str, dict[str, Any]]) -> dict[str, list[float]]:
    """Return the differences over test rows from the first of the models that were measured with the same settings."""
    return {
        ", ".join(filter(None, [f"{model} - {first}", title])): compare_sets(found[first], found[model])
        for title, found in counts.items()
        for first, *others in [list(found)]
        for model in others
    }


def main() -> None:
    parser = PAGE.parser(__doc__, quick=True, keeps=True)
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; none: only write the page")
    parser.add_argument("--data", nargs="*", choices=list(CUTS))
    add_cluster(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for part in args.parts:
        what, _, only = part.partition(":")
        if what not in PARTS:
            parser.error(f"unknown part {part!r}; known: {', '.join(PARTS)}")
        for name in [only] if only else args.data or PARTS[what]:
            measure_part(what, name, args.out, args.quick, args.cluster)
    args.out.mkdir(parents=True, exist_ok=True)
    PAGE.write(args.out, page_blocks(load(args.out), args.out))


if __name__ == "__main__":
    main()
