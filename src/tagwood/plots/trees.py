"""Charts of a `TreeSweep`: precision against latency and against expected depth, one mark per λ."""

from __future__ import annotations

from tagwood.models.tree_sweep import TreeSweep
from tagwood.plots.chart import Chart, Mark


def sweep_charts(sweep: TreeSweep) -> list[Chart]:
    """Return the Pareto charts of a sweep; without times there is one over nodes instead of latency."""
    timed = "exact_p50_1" in sweep.points[0].measures
    kinds = {"exact search": "exact_p50_1", "beam of 10": "beam_p50_1"}
    title, unit = "Precision against latency", "p50 of a single row, k=1, µs"
    if not timed:
        kinds = {"exact search": "exact_nodes_1", "beam of 10": "beam_nodes_1"}
        title, unit = "Precision against work", "evaluated nodes of a row, k=1"
    fast = {
        name: _marks(sweep, measure, "beam_P@1" if "beam" in name else "P@1")
        for name, measure in kinds.items()
    }
    depths = [
        Chart(
            f"P@{k} against expected depth",
            f"expected depth@{k}",
            f"P@{k}, %",
            {"λ": _marks(sweep, f"depth@{k}", f"P@{k}")},
        )
        for k in (1, 3, 5)
    ]
    return [Chart(title, unit, "P@1, %", fast), *depths]


def _marks(sweep: TreeSweep, across: str, up: str) -> list[Mark]:
    chosen = sweep.lam
    return [
        Mark(p.measures[across], 100 * p.measures[up], f"λ={p.lam:.3g}", p.lam == chosen)
        for p in sweep.points
    ]
