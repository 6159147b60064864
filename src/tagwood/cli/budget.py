"""The forecast inside `tagwood train`: shown before training, and a refusal where the memory does not suffice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tagwood.cli.output import say
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data import Dataset
    from tagwood.planning import Forecast
    from tagwood.recipe import Recipe

_WORTH_SAYING = 2.0  # CPU seconds; shorter runs are over before the line is read


def check_budget(
    rows: Dataset, recipe: Recipe, test_fraction: float, allowed: float | None, *, force: bool
) -> Forecast | None:
    """Say what training will need; raise `InputError` if that is more memory than there is or is allowed (bytes).

    Returns None for models that no forecast is made for.
    """
    from tagwood.cli.plan import figures_of
    from tagwood.models.linear_tree import LinearTree
    from tagwood.planning import forecast_training
    from tagwood.planning.memory import largest_bytes, used_bytes
    from tagwood.planning.quantities import show_amount, show_time

    if not isinstance(recipe.tagger().model, LinearTree):
        return None
    found = forecast_training(
        figures_of(rows, recipe, test_fraction), recipe.tagger(), used_bytes=used_bytes()
    )
    if found.cpu_seconds.expected >= _WORTH_SAYING:
        say(
            f"Forecast: {show_amount(found.peak_bytes.expected)} of memory, {show_time(found.cpu_seconds.expected)} "
            f"of CPU time, a model of {show_amount(found.model_bytes.expected)}."
        )
    machine = largest_bytes()
    for limit, whose in ((allowed, "--max-ram allows"), (machine, "this machine has free")):
        if limit is not None and found.peak_bytes.expected > limit and not force:
            raise InputError(
                f"training must fit into the {show_amount(limit)} that {whose}",
                given=f"about {show_amount(found.peak_bytes.expected)}",
                hint=f"tagwood plan DATA --max-ram {limit / 1e6:.0f}MB finds settings; --force tries it anyway.",
            )
    return found
